// The choice between light, dark and the system's setting, kept in this browser.

import { useEffect, useState } from "preact/hooks";

const KEY = "operetta-theme";
const THEMES = ["auto", "light", "dark"];

function stored(): string {
  try {
    const theme = localStorage.getItem(KEY) ?? "auto";
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

function apply(theme: string): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

/** Applies the stored choice; before the first render, so that nothing flashes. */
export function applyTheme(): void {
  apply(stored());
}

/** The choice. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(stored);
  useEffect(() => {
    apply(theme);
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // A browser without storage forgets the choice with the tab.
    }
  }, [theme]);
  return (
    <label>
      <span class="visually-hidden">Theme</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value)}>
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
