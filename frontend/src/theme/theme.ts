import { createTheme, type MantineColorsTuple } from "@mantine/core";
import { t } from "../i18n";

/** The one accent; everything else is neutral or carries a meaning (good, late, failed). */
const accent: MantineColorsTuple = [
  "#eef3ff",
  "#dce5fd",
  "#b8c9fa",
  "#91abf6",
  "#6f8ff2",
  "#5577ee",
  "#2f56d9",
  "#2848bb",
  "#223d9c",
  "#1a2f7a",
];

const gray: MantineColorsTuple = [
  "#fafafb",
  "#f4f4f6",
  "#e9e9ed",
  "#dddde3",
  "#c6c6cf",
  "#9b9ba7",
  "#71717d",
  "#53535e",
  "#33333b",
  "#1b1b20",
];

const dark: MantineColorsTuple = [
  "#ececf0",
  "#b9b9c3",
  "#93939f",
  "#6b6b77",
  "#3a3a43",
  "#2a2a31",
  "#1e1e23",
  "#151518",
  "#0e0e10",
  "#09090a",
];

export const theme = createTheme({
  primaryColor: "accent",
  primaryShade: 6,
  colors: { accent, gray, dark },
  white: "#ffffff",
  black: "#17171b",
  fontFamily: '"Geist Variable", system-ui, -apple-system, "Segoe UI", sans-serif',
  fontFamilyMonospace: '"Geist Mono Variable", ui-monospace, SFMono-Regular, Menlo, monospace',
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.125rem" },
  headings: {
    fontWeight: "600",
    sizes: {
      h1: { fontSize: "1.375rem", lineHeight: "1.3" },
      h2: { fontSize: "1rem", lineHeight: "1.4" },
      h3: { fontSize: "0.875rem", lineHeight: "1.4" },
    },
  },
  defaultRadius: "md",
  radius: { xs: "3px", sm: "5px", md: "7px", lg: "10px", xl: "16px" },
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: "sm", fw: 500 } },
    // Options are made when their list is opened: a page has several, of hundreds
    Combobox: { defaultProps: { keepMounted: false } },
    // More options than anyone reads would hold up the click that opens the list; the search finds the others.
    Select: { defaultProps: { limit: 100 } },
    MultiSelect: { defaultProps: { limit: 100 } },
    PasswordInput: {
      defaultProps: { visibilityToggleButtonProps: { "aria-label": t.kit.showPassword } },
    },
    TextInput: { defaultProps: { size: "sm" } },
    Tooltip: {
      defaultProps: {
        withArrow: true,
        openDelay: 250,
        multiline: true,
        maw: 300,
        fz: "xs",
        events: { hover: true, focus: true, touch: true },
      },
    },
    Modal: {
      styles: { title: { fontWeight: 600, fontSize: "1rem" } },
      defaultProps: {
        centered: true,
        closeButtonProps: { "aria-label": t.actions.close },
        overlayProps: { backgroundOpacity: 0.45 },
        // Its title is no second banner of the page.
        attributes: { header: { role: "presentation" } },
        transitionProps: { duration: 120 },
      },
    },
    Drawer: {
      styles: { title: { fontWeight: 600, fontSize: "1rem" } },
      defaultProps: {
        position: "right",
        closeButtonProps: { "aria-label": t.actions.close },
        overlayProps: { backgroundOpacity: 0.45 },
        // Its title is no second banner of the page.
        attributes: { header: { role: "presentation" } },
      },
    },
    Menu: { defaultProps: { shadow: "md", position: "bottom-end", transitionProps: { duration: 80 } } },
  },
});
