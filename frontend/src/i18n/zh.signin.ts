import type { enSignin } from "./en.signin";

export const zhSignin: typeof enSignin = {
  title: "登录 Berth",
  text: "以按时送达的词元衡量的语言模型服务。",
  email: "邮箱",
  password: "密码",
  submit: "登录",
  ended: "会话已结束。请重新登录，之后回到刚才的页面。",
  foot: "首次启动？运行 Berth 的终端会显示管理员的登录信息。",
};
