// The entry. The script takes the body over: that of a page without data, of the answer to a sign-in, or of a page of plain HTML.

import { render } from "preact";
import { shareSecret, signedIn } from "./api/session.ts";
import { App } from "./app.tsx";
import { applyTheme } from "./view/theme.tsx";
import "./style/main.css";

applyTheme();
const next = signedIn(document);
if (next) {
  // In place of the answer to the sign-in: the secret in it stays in no history.
  location.replace(next);
} else {
  await shareSecret();
  const root = document.createElement("div");
  root.className = "root";
  render(<App />, root);
  document.body.replaceChildren(root);
}
