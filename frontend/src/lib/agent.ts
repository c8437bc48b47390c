/** A browser's own name, as short as people say it: "Firefox on Linux". Empty where it tells nothing. */

const BROWSERS: [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/Safari\//, "Safari"],
];

const SYSTEMS: [RegExp, string][] = [
  [/Windows/, "Windows"],
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Mac OS X/, "macOS"],
  [/Linux|X11/, "Linux"],
];

const first = (kinds: [RegExp, string][], agent: string) => kinds.find(([kind]) => kind.test(agent))?.[1];

export function shortAgent(agent: string): string {
  const browser = first(BROWSERS, agent);
  if (!browser) return agent.split(/[ /]/)[0] ?? "";
  const system = first(SYSTEMS, agent);
  return system ? `${browser}, ${system}` : browser;
}
