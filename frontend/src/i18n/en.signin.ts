export const enSignin = {
  title: "Sign in to Berth",
  text: "Language models, measured by the tokens that arrive in time.",
  email: "E-mail",
  password: "Password",
  submit: "Sign in",
  ended: "Your session has ended. Sign in again to go on where you were.",
  foot: "First start? The terminal that runs Berth shows the operator's sign-in.",
};
