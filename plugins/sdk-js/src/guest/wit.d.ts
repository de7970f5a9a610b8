/**
 * The contract's imports in JavaScript: records are objects with camelCase fields, `none` is null, and a failed call
 * throws the error variant. wit/controller.wit documents them.
 */

declare module "operetta:controller/objects@0.1.0" {
  type Kind = { apiVersion: string; kind: string };
  type Key = { namespace: string | null; name: string };
  type Read = "cached" | "live";
  type WriteOptions = { dryRun: boolean; fieldManager: string | null; strict: boolean };
  type Selection =
    | { tag: "all" }
    | { tag: "by-index"; val: [name: string, value: string] }
    | { tag: "by-owner"; val: string };
  type ListOptions = {
    namespace: string | null;
    labels: string | null;
    fields: string | null;
    selection: Selection;
    limit: number | null;
    continueToken: string | null;
    read: Read;
    projection: string[];
  };
  type DeleteOptions = {
    uid: string | null;
    resourceVersion: string | null;
    gracePeriodSeconds: number | null;
    propagation: "background" | "foreground" | "orphan" | null;
    dryRun: boolean;
  };
  type Page = { items: string[]; resourceVersion: string; continueToken: string | null };
  const objects: {
    get(kind: Kind, key: Key, read: Read): string;
    list(kind: Kind, options: ListOptions): Page;
    create(kind: Kind, namespace: string | null, object: string, options: WriteOptions): string;
    update(kind: Kind, key: Key, object: string, options: WriteOptions): string;
    updateStatus(kind: Kind, key: Key, object: string, options: WriteOptions): string;
    patch(
      kind: Kind,
      key: Key,
      subresource: string | null,
      body: { tag: "merge" | "json" | "apply"; val: string },
      force: boolean,
      options: WriteOptions,
    ): string;
    delete(kind: Kind, key: Key, options: DeleteOptions): void;
  };
  export default objects;
}

declare module "operetta:controller/raw@0.1.0" {
  type Request = {
    method: string;
    path: string;
    query: string;
    contentType: string | null;
    accept: string | null;
    body: string | null;
    cached: boolean;
  };
  type Response = { status: number; contentType: string; retryAfterSeconds: number | null; body: string };
  const raw: { send(request: Request): Response };
  export default raw;
}

declare module "operetta:controller/warnings@0.1.0" {
  const warnings: { take(): string[] };
  export default warnings;
}

declare module "operetta:controller/events@0.1.0" {
  type Kind = { apiVersion: string; kind: string };
  type Key = { namespace: string | null; name: string };
  const events: {
    emit(
      regarding: Kind,
      key: Key,
      uid: string | null,
      kind: "normal" | "warning",
      reason: string,
      action: string,
      note: string,
    ): void;
  };
  export default events;
}

declare module "operetta:controller/log@0.1.0" {
  type Level = "error" | "warn" | "info" | "debug" | "trace";
  const log: {
    enabled(level: Level): boolean;
    write(level: Level, message: string, fields: [name: string, value: string][]): void;
  };
  export default log;
}

declare module "operetta:controller/config@0.1.0" {
  const config: { get(): string };
  export default config;
}

declare module "operetta:development/source@0.1.0" {
  const source: { get(): string; fail(message: string): void };
  export default source;
}
