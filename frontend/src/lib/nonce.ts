/** What this page's content security policy asks of a style that is made as the console runs. */
export const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";

// react-remove-scroll, which a dialog uses, looks for it under webpack's name.
Object.assign(globalThis, { __webpack_nonce__: nonce });
