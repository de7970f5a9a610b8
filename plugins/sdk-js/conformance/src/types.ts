/** Types and helpers that the cases share. */
import { type ApiError, type Context, isApiError, kind, type KubernetesObject, type Stored } from "@operetta/sdk";
import type { ConfigMap } from "@operetta/sdk/kinds";

/** One case, as passed to a behaviour. */
export interface Case {
  readonly ctx: Context;
  /** The ConfigMap of the case. */
  readonly map: Stored<ConfigMap>;
  readonly namespace: string;
  /** The arguments of the case. */
  readonly data: Readonly<Record<string, string>>;
}

/** Runs a case and returns its result. */
export type Behaviour = (one: Case) => string;
export type Cases = Readonly<Record<string, Behaviour>>;

/** The custom resource of the suite. */
export interface Widget extends KubernetesObject {
  spec?: {
    big?: number | bigint;
    size?: string | number;
    note?: string | null;
    touched?: boolean;
  };
  status?: { phase?: string };
}
export const Widget = kind<Widget>("conformance.operetta.dev/v1", "Widget");

/** Returns the key of the object that the case names. */
export function target({ namespace, data }: Case): { namespace: string; name: string } {
  const name = data["target"];
  if (!name) {
    throw new Error("the case has no data.target");
  }
  return { namespace, name };
}

/** Returns one argument of the case. */
export function argument({ data }: Case, name: string): string {
  const value = data[name];
  if (value === undefined) {
    throw new Error(`the case has no data.${name}`);
  }
  return value;
}

/** Returns the ApiError of a call that must fail with one. */
export function errorOf(call: () => unknown): ApiError {
  try {
    call();
  } catch (error) {
    if (isApiError(error)) {
      return error;
    }
    throw error;
  }
  throw new Error("the call did not fail");
}

/** Formats an error as `VARIANT CODE REASON`. */
export function words({ kind, code, reason }: ApiError): string {
  return [kind, code, reason].join(" ");
}
