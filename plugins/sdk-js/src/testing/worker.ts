/**
 * The worker thread that speaks to the test server while the test waits for it.
 *
 * A plugin's calls are synchronous, and Node has no synchronous sockets: the test posts a request to the worker and
 * sleeps on a shared integer until the worker has posted the response. The worker is text because tests are bundled into
 * one file, which has no path for a second one.
 */

/** A request to the worker: a line to send for a cluster, whose connection is opened first; or the end of the cluster. */
export interface WorkerRequest {
  readonly cluster: number;
  readonly line?: string;
}

/** The response of the worker: the server's line, or the reason why there is none. */
export type WorkerResponse = { readonly line: string } | { readonly problem: string };

/** What the worker is started with. */
export interface WorkerData {
  /** Receives requests, and sends responses. */
  readonly port: MessagePort;
  /** Becomes 1 with each response. */
  readonly signal: Int32Array;
  /** The address of the server, `TOKEN@HOST:PORT`; undefined to start `program`. */
  readonly address: string | undefined;
  readonly program: string;
  /** The help for a missing program. */
  readonly missing: string;
}

type MessagePort = import("node:worker_threads").MessagePort;

/** The worker's code, CommonJS. */
export const WORKER = `
const { spawn } = require("node:child_process");
const { connect } = require("node:net");
const { createInterface } = require("node:readline");
const { workerData: { port, signal, address, program, missing } } = require("node:worker_threads");

const clusters = new Map();
let server;

/** Starts the server and returns its address. It ends when its stdin closes, at the latest with this process. */
function start() {
  return new Promise((resolve, reject) => {
    const child = spawn(program, ["test", "--serve"], { stdio: ["pipe", "pipe", "inherit"] });
    child.on("error", ({ code }) =>
      reject(new Error("the test server " + program + " cannot be started (" + code + "): " + missing)));
    child.on("exit", (code, name) =>
      reject(new Error("\`" + program + " test --serve\` ended with " + (name ?? "exit code " + code) + "; its error output says why")));
    createInterface(child.stdout).once("line", resolve);
  });
}

/** Opens a cluster, and returns its socket and a function that sends a line and returns the response. */
async function open() {
  server ??= address ? Promise.resolve(address) : start();
  const [token, host, number] = (await server).split(/@|:(?=[0-9]+$)/);
  const socket = connect({ host, port: Number(number), noDelay: true });
  let waiting;
  const end = (why) => waiting?.reject(new Error(why));
  socket.on("error", ({ message }) => end("the connection to the test server failed: " + message));
  socket.on("close", () => end("the test server closed the connection; its error output says why"));
  const chunks = [];
  socket.on("data", (chunk) => {
    chunks.push(chunk);
    // There is one response at a time, so a line end is at the end of a chunk.
    if (chunk.at(-1) === 10) {
      waiting?.resolve(Buffer.concat(chunks.splice(0)).toString());
    }
  });
  const exchange = (line) => new Promise((resolve, reject) => {
    waiting = { resolve, reject };
    socket.destroyed ? end("the test server closed the connection; its error output says why") : socket.write(line + "\\n");
  });
  await exchange(JSON.stringify({ call: "open", token }));
  return { socket, exchange };
}

port.on("message", async ({ cluster, line }) => {
  if (line === undefined) {
    const ended = clusters.get(cluster);
    clusters.delete(cluster);
    (await ended?.catch(() => {}))?.socket.destroy();
    return;
  }
  let response;
  try {
    if (!clusters.has(cluster)) clusters.set(cluster, open());
    response = { line: await (await clusters.get(cluster)).exchange(line) };
  } catch ({ message }) {
    response = { problem: message };
  }
  port.postMessage(response);
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});
`;
