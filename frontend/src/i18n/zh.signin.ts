import type { enInvitation, enSignin } from "./en.signin";

export const zhSignin: typeof enSignin = {
  title: "登录 Berth",
  text: "以按时送达的词元衡量的语言模型服务。",
  email: "邮箱",
  password: "密码",
  submit: "登录",
  ended: "会话已结束。请重新登录，之后回到刚才的页面。",
  foot: "首次启动？运行 Berth 的终端会显示管理员的登录信息。",
  code: "身份验证器中的验证码",
  codeHint: "六位数字。丢失了应用？请输入恢复码。",
  codeTitle: "还差一步",
  codeText: (email) => `密码正确。请确认是您本人：${email}。`,
  other: "以其他人登录",
  locked: (wait) => `失败次数过多。请在${wait}重试，或请平台管理员解锁。`,
};

export const zhInvitation: typeof enInvitation = {
  title: (tenant) => `加入 ${tenant}`,
  text: (who, role) => `${who} 邀请您担任${role}。`,
  someone: "有人",
  until: (when) => `邀请有效期至 ${when}。`,
  name: "您的姓名",
  password: "设置密码",
  passwordHint: "至少 10 个字符。",
  passwordOfAccount: "您的密码",
  hasAccount: "此邮箱已有账户：输入其密码即可加入。",
  accept: "接受邀请",
  goodNow: "接受后将自动登录。",
  noToken: "链接不完整",
  noTokenText: "请完整复制链接，或请对方重新发送。",
  bad: "无法接受此邀请",
  toSignIn: "前往登录",
};
