import { loadLanguage } from "./i18n";

// Nothing else is loaded before its words are there.
await loadLanguage();
await import("./app");
