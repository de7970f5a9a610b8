#!/usr/bin/env node
/**
 * The command line for a plugin's project.
 *
 *     operetta-js build [DIR] [-o FILE] [--entry FILE] [--size] [--no-check]
                                                                 a component; by default build/NAME.wasm
 *     operetta-js develop DIR --interpreters FOLDER                the helper of `operetta dev`
 *     operetta-js test [FILE…]                                     test/*.test.{ts,js,mjs}, bundled, under `node --test`
 *
 * Exit code 0: done, 1: failed, 2: wrong usage.
 */
import { parseArgs } from "node:util";

import { build, BuildError } from "./build.mjs";
import { develop } from "./develop.mjs";
import { test } from "./test.mjs";

const USAGE = `usage: operetta-js build [DIR] [-o FILE] [--entry FILE] [--size] [--no-check]
       operetta-js test [FILE...]`;

const commands = {
  async build(args) {
    const { values, positionals } = parse(args, {
      output: { type: "string", short: "o" },
      entry: { type: "string" },
      size: { type: "boolean", default: false },
      "no-check": { type: "boolean", default: false },
    });
    if (positionals.length > 1) {
      usage("build takes one folder");
    }
    await build({ dir: positionals[0] ?? ".", ...values });
    return 0;
  },
  async develop(args) {
    const { values, positionals } = parse(args, { interpreters: { type: "string" } });
    if (positionals.length !== 1 || !values.interpreters) {
      usage("develop takes one folder, and --interpreters");
    }
    await develop({ dir: positionals[0], ...values });
    return 0;
  },
  test: async (args) => test(parse(args, {}).positionals),
};

function parse(args, options) {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    return usage(error.message);
  }
}

function usage(problem) {
  console.error(`operetta-js: ${problem}\n${USAGE}`);
  process.exit(2);
}

const [name = "", ...args] = process.argv.slice(2);
if (["help", "--help", "-h"].includes(name)) {
  console.log(USAGE);
} else if (!Object.hasOwn(commands, name)) {
  usage(name ? `there is no command ${name}` : "a command is missing");
} else {
  try {
    process.exitCode = await commands[name](args);
  } catch (error) {
    if (!(error instanceof BuildError)) {
      throw error;
    }
    console.error(`operetta-js: ${error.message}`);
    process.exitCode = 1;
  }
}
