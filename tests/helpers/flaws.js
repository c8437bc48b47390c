// What a script can see amiss in the page as it is: one line each.
() => {
  const found = [];
  const shown = (node) => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const words = (node) => (node.getAttribute("aria-label") || node.innerText || node.tagName).trim().slice(0, 80);
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) found.push(`page: ${wide} px wider than the window`);
  for (const node of document.querySelectorAll("body *")) {
    if (!shown(node)) continue;
    const style = getComputedStyle(node);
    const cut = style.overflowX === "hidden" && node.scrollWidth > node.clientWidth + 1;
    if (cut && node.innerText?.trim() && node.clientWidth > 1) found.push(`cut: ${words(node)}`);
    const text = [...node.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE).map((one) => one.data).join("").trim();
    const foreign = document.documentElement.lang.startsWith("zh") && /[a-z]{3,} [a-z]{2,}/i.test(text);
    if (foreign && !/\p{Script=Han}/u.test(text)) found.push(`English: ${text}`);
  }
  if (innerWidth < 500) {
    for (const node of document.querySelectorAll("a, button, input, select, textarea, [role=button], [role=tab]")) {
      const box = node.getBoundingClientRect();
      const inline = node.tagName === "A" && getComputedStyle(node).display === "inline";
      const inside = node.tagName === "INPUT" && /checkbox|radio/.test(node.type);
      // Some have more room for a finger than they show, by what is laid behind them.
      const room = Math.max(box.height, Number.parseFloat(getComputedStyle(node, "::after").height) || 0);
      if (shown(node) && !inline && !inside && box.width > 1 && room < 40) {
        found.push(`small: ${Math.round(box.width)}x${Math.round(box.height)} ${words(node)}`);
      }
    }
  }
  return [...new Set(found)];
}
