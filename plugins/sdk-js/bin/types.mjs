/** The check of a project's types, by the TypeScript that the project depends on. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import { BuildError } from "./build.mjs";

/**
 * Checks the types of a project that has a tsconfig.json. Without TypeScript among its packages, it prints a note.
 *
 * @throws BuildError with the errors that tsc prints.
 */
export async function checkTypes(project) {
  if (!existsSync(path.join(project, "tsconfig.json"))) {
    return;
  }
  const tsc = compilerOf(project);
  if (!tsc) {
    console.error("operetta-js: the types are not checked: npm install --save-dev typescript");
    return;
  }
  const { status, output } = await run(process.execPath, [tsc, "--noEmit", "--pretty", "false", "-p", project], project);
  if (status !== 0) {
    throw new BuildError(`the types are wrong (--no-check builds nevertheless):\n${output.trimEnd()}`);
  }
}

/** Returns the path of the project's tsc, or undefined. */
function compilerOf(project) {
  try {
    return createRequire(path.join(project, "package.json")).resolve("typescript/bin/tsc");
  } catch {
    return undefined;
  }
}

function run(program, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
    child.on("error", reject).on("close", (status) => resolve({ status, output }));
  });
}
