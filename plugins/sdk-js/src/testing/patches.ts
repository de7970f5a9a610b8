/** Merge patches (RFC 7386) and JSON patches (RFC 6902). They do not change values in place. */

import { isDeepStrictEqual } from "node:util";

import type { JsonPatchOperation } from "../options.ts";

/** A JSON value. */
export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

/** A JSON object. */
export type JsonObject = { [name: string]: Json };

/** Reports whether a value is an object, not an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the target with a merge patch applied. */
export function mergePatch(target: Json, patch: Json): Json {
  if (!isObject(patch)) {
    return patch;
  }
  const merged = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) {
      delete merged[name];
    } else {
      merged[name] = mergePatch(merged[name] ?? null, value);
    }
  }
  return merged;
}

/**
 * Returns the target with the operations applied.
 *
 * @throws Error that names the operation that cannot be applied.
 */
export function jsonPatch(target: Json, operations: readonly JsonPatchOperation[]): Json {
  return operations.reduce((value, operation) => {
    try {
      return apply(value, operation);
    } catch (error) {
      throw new Error(`${operation.op} ${operation.path}: ${(error as Error).message}`);
    }
  }, structuredClone(target));
}

function apply(root: Json, operation: JsonPatchOperation): Json {
  switch (operation.op) {
    case "add":
      return add(root, operation.path, structuredClone(operation.value) as Json);
    case "replace":
      at(root, operation.path);
      return add(remove(root, operation.path), operation.path, structuredClone(operation.value) as Json);
    case "remove":
      return remove(root, operation.path);
    case "move":
      return add(remove(root, operation.from), operation.path, at(root, operation.from));
    case "copy":
      return add(root, operation.path, structuredClone(at(root, operation.from)));
    case "test":
      if (!isDeepStrictEqual(at(root, operation.path), operation.value)) {
        throw new Error("the value differs");
      }
      return root;
    default:
      throw new Error("unknown operation");
  }
}

function at(root: Json, pointer: string): Json {
  return segments(pointer).reduce<Json>((value, segment) => {
    const inner = Array.isArray(value) ? value[index(segment, value.length - 1)] : isObject(value) ? value[segment] : undefined;
    if (inner === undefined) {
      throw new Error("the path does not exist");
    }
    return inner;
  }, root);
}

function add(root: Json, pointer: string, value: Json): Json {
  return within(root, segments(pointer), (parent, last) => {
    if (Array.isArray(parent)) {
      return parent.toSpliced(last === "-" ? parent.length : index(last, parent.length), 0, value);
    }
    return { ...parent, [last]: value };
  }, value);
}

function remove(root: Json, pointer: string): Json {
  at(root, pointer);
  return within(root, segments(pointer), (parent, last) => {
    if (Array.isArray(parent)) {
      return parent.toSpliced(index(last, parent.length - 1), 1);
    }
    const { [last]: _gone, ...rest } = parent;
    return rest;
  }, null);
}

/** Returns the value with the parent of a path changed, or `whole` if the path is that of the value itself. */
function within(
  value: Json,
  path: readonly string[],
  change: (parent: Json[] | JsonObject, last: string) => Json,
  whole: Json,
): Json {
  const [first, ...rest] = path;
  if (first === undefined) {
    return whole;
  }
  if (!Array.isArray(value) && !isObject(value)) {
    throw new Error("the path does not exist");
  }
  if (rest.length === 0) {
    return change(value, first);
  }
  const inner = within(at(value, `/${escape(first)}`), rest, change, whole);
  return Array.isArray(value) ? value.with(index(first, value.length - 1), inner) : { ...value, [first]: inner };
}

function segments(pointer: string): string[] {
  if (pointer !== "" && !pointer.startsWith("/")) {
    throw new Error("a path begins with a slash");
  }
  return pointer.split("/").slice(1).map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

const escape = (segment: string) => segment.replaceAll("~", "~0").replaceAll("/", "~1");

function index(segment: string, most: number): number {
  const position = /^(0|[1-9]\d*)$/.test(segment) ? Number(segment) : -1;
  if (position < 0 || position > most) {
    throw new Error("the item does not exist");
  }
  return position;
}
