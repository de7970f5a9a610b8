// The host of scripts/page-host.sh, with its control plane: what a test changes beside the browser.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { request } from "node:https";

/** A host that the tests may disturb. */
export class Host {
  readonly #folder: string;
  readonly #server: URL;
  readonly #token: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.#token = this.read("token");
    this.#server = new URL(/server: (\S+)/.exec(this.read("kubeconfig"))?.[1] ?? "");
  }

  /** Returns a file of the host's folder. */
  read(name: string): string {
    return readFileSync(`${this.#folder}/${name}`, "utf8").trim();
  }

  /** Runs kubectl as the administrator, with an object or objects as its input. */
  kubectl(args: string, input?: unknown): string {
    const options = { encoding: "utf8" as const, env: { ...process.env, KUBECONFIG: `${this.#folder}/kubeconfig` }, input: input === undefined ? "" : JSON.stringify(input) };
    return execFileSync("kubectl", args.split(" "), options).trim();
  }

  /** Applies objects. */
  apply(...objects: object[]): void {
    this.kubectl("apply --server-side -f -", { apiVersion: "v1", kind: "List", items: objects });
  }

  /** Creates a ServiceAccount in team-a that may read what is there, and returns a token of it. */
  user(name: string): string {
    this.kubectl(`create serviceaccount -n team-a ${name}`);
    this.kubectl(`create rolebinding -n team-a ${name} --role=tenant --serviceaccount=team-a:${name}`);
    return this.kubectl(`create token -n team-a ${name}`);
  }

  /** Sends a merge patch to the API server, without a program in between. */
  patch(path: string, body: object): Promise<void> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#token}`, "content-type": "application/merge-patch+json" };
      const sent = request(new URL(path, this.#server), { method: "PATCH", headers, rejectUnauthorized: false }, (response) => {
        response.resume();
        response.on("end", () => (response.statusCode === 200 ? resolve() : reject(new Error(`PATCH ${path}: ${response.statusCode}`))));
      });
      sent.on("error", reject);
      sent.end(JSON.stringify(body));
    });
  }

  /** Ends the host; it starts again by itself. */
  killHost(): void {
    process.kill(Number(this.read("host.pid")), "SIGKILL");
  }

  /** Ends the API server; it starts again by itself. */
  killApiServer(): void {
    const pids = JSON.parse(this.read("cluster/pids.json")) as Record<string, number>;
    process.kill(pids["kube-apiserver"] ?? 0, "SIGKILL");
  }

  /** Returns the processor's time of the host so far, in milliseconds. */
  cpu(): number {
    const fields = readFileSync(`/proc/${this.read("host.pid")}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
    // Fields 14 and 15 of the whole line, in ticks of 10 ms.
    return 10 * (Number(fields[11]) + Number(fields[12]));
  }
}

/** Returns the host that the tests may disturb, or undefined if there is none: PAGE_HOST names its folder. */
export function hostOf(): Host | undefined {
  const folder = process.env["PAGE_HOST"];
  return folder ? new Host(folder) : undefined;
}
