/**
 * The connection of a test cluster to the test server of `operetta test`. A request and its response are one line of
 * JSON each. A connection is one cluster: it is empty at first, and ends with the connection.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";

import { parse as losslessParse, stringify as losslessStringify } from "lossless-json";

import { ApiError, type ApiErrorKind, type Status } from "../errors.ts";
import { integer, isNative, parse, stringify, useCodec } from "../json.ts";
import { WORKER, type WorkerData, type WorkerRequest, type WorkerResponse } from "./worker.ts";

if (!isNative) {
  useCodec({ parse: (text) => losslessParse(text, undefined, numberOf), stringify: losslessStringify });
}

function numberOf(source: string): number | bigint {
  const value = Number(source);
  return Number.isSafeInteger(value) ? value : (integer(source) ?? value);
}

/** The longest time of a call, in milliseconds, including the start of the server. */
const DEADLINE = 120_000;

const MISSING = "run the tests with `operetta test`, or put `operetta` on PATH, or set OPERETTA to the program";

/** A response of the server. */
interface Response {
  readonly ok?: unknown;
  readonly error?: { readonly type: ApiErrorKind; readonly status: Omit<Status, "retryAfterSeconds"> & { retryAfterSeconds: number | null } };
  readonly failure?: string;
  /** The API server's warnings about the call. */
  readonly warnings?: readonly string[];
}

/** A connection to the test server: one cluster. */
export class Connection {
  readonly #cluster = (count += 1);
  #warnings: string[] = [];

  constructor() {
    ended.register(this, this.#cluster);
  }

  /**
   * Sends a request and returns the value of its response. `texts` are further arguments, as JSON texts. The first call
   * of the process starts the server, unless `operetta test` runs it.
   *
   * @throws ApiError if the call failed.
   * @throws Error if there is no server, or it refused the request.
   */
  call(name: string, args: object, texts: Readonly<Record<string, string>> = {}): unknown {
    const head = stringify({ call: name, ...args }, `the call ${name}`).slice(0, -1);
    const line = Object.entries(texts).reduce((text, [key, value]) => `${text},"${key}":${value}`, head);
    const answer = exchange({ cluster: this.#cluster, line: `${line}}` });
    if ("problem" in answer) {
      throw new Error(`${name}: ${answer.problem}`);
    }
    if (name !== "dump") {
      markUsed(this);
    }
    const { ok, error, failure, warnings = [] } = parse(answer.line, "the response of the test server") as Response;
    this.#warnings.push(...warnings);
    if (error) {
      throw new ApiError(error.type, { ...error.status, retryAfterSeconds: error.status.retryAfterSeconds ?? undefined });
    }
    if (failure !== undefined) {
      throw new Error(failure);
    }
    return ok;
  }

  /** Takes the API server's warnings about the calls since the last time. */
  takeWarnings(): string[] {
    return this.#warnings.splice(0);
  }
}

/** The number of clusters so far. */
let count = 0;

/** The clusters that the test has used, in the order of their last calls. */
const used = new Set<Connection>();

/** The largest number of clusters that a failed test shows, and that are kept for it. */
const MAX_USED = 10;

function markUsed(connection: Connection): void {
  used.delete(connection);
  used.add(connection);
  const [oldest] = used;
  if (used.size > MAX_USED && oldest) {
    used.delete(oldest);
  }
}

/**
 * Ends a test: prints the objects and the calls of the clusters that it has used, if it failed. The kit calls it under
 * `node --test`. A hook after each test of another runner may call it.
 */
export function afterTest(name: string, passed: boolean): void {
  const ofTest = [...used];
  used.clear();
  if (!passed) {
    ofTest.forEach((connection) => console.error(`the cluster of the failed test ${JSON.stringify(name)}:\n${dumpOf(connection)}`));
  }
}

function dumpOf(connection: Connection): string {
  try {
    return String(connection.call("dump", {}));
  } catch (error) {
    return String(error);
  }
}

/** The worker of this process. */
let worker: { readonly port: MessagePort; readonly signal: Int32Array } | undefined;

/** Ends the connection of a cluster that was collected. */
const ended = new FinalizationRegistry<number>((cluster) => {
  worker?.port.postMessage({ cluster } satisfies WorkerRequest);
});

/** The problem after which no response belongs to its request. */
let broken: WorkerResponse | undefined;

/** Sends a request to the worker and waits for its response. */
function exchange(request: WorkerRequest): WorkerResponse {
  worker ??= start();
  const { port, signal } = worker;
  if (broken) {
    return broken;
  }
  Atomics.store(signal, 0, 0);
  port.postMessage(request);
  if (Atomics.wait(signal, 0, 0, DEADLINE) === "timed-out") {
    broken = { problem: `the test server did not respond within ${DEADLINE / 1000} s` };
    return broken;
  }
  return receiveMessageOnPort(port)?.message as WorkerResponse;
}

/** Starts the worker. It does not keep the process alive. */
function start() {
  const { port1, port2 } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const { OPERETTA_TEST_ADDRESS: address, OPERETTA: program } = process.env;
  const workerData: WorkerData = { port: port2, signal, address, program: program || "operetta", missing: MISSING };
  new Worker(WORKER, { eval: true, execArgv: [], workerData, transferList: [port2] }).unref();
  return { port: port1, signal };
}
