// The entry. The host sends each page as plain HTML, complete without this script; the script takes the body over.

import { render } from "preact";
import { App } from "./app.tsx";
import { applyTheme } from "./view/theme.tsx";
import "./style/main.css";

applyTheme();
const root = document.createElement("div");
root.className = "root";
render(<App />, root);
document.body.replaceChildren(root);
