/** The check of a project's types, by the TypeScript that the project depends on. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";

import { BuildError } from "./build.mjs";

/**
 * Checks the types of a project that has a tsconfig.json and its packages. Without TypeScript among them, it prints a note.
 *
 * @throws BuildError with the errors that tsc prints.
 */
export async function checkTypes(project) {
  if (!existsSync(path.join(project, "tsconfig.json")) || !packageOf(project, "@operetta/sdk")) {
    return;
  }
  const typescript = packageOf(project, "typescript");
  if (!typescript) {
    console.error("operetta-js: the types are not checked: npm install --save-dev typescript");
    return;
  }
  const tsc = path.join(typescript, "bin", "tsc");
  const { status, output } = await run(process.execPath, [tsc, "--noEmit", "--pretty", "false", "-p", project], project);
  if (status !== 0) {
    throw new BuildError(`the types are wrong (--no-check builds nevertheless):\n${output.trimEnd()}`);
  }
}

/** Returns the folder of a package that the project or a folder above it has installed, or undefined. */
function packageOf(project, name) {
  const folder = path.join(project, "node_modules", name);
  if (existsSync(path.join(folder, "package.json"))) {
    return folder;
  }
  const parent = path.dirname(project);
  return parent === project ? undefined : packageOf(parent, name);
}

function run(program, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
    child.on("error", reject).on("close", (status) => resolve({ status, output }));
  });
}
