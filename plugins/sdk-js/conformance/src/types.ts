/** What the cases have in common. */
import { type ApiError, type Context, isApiError, kind, type KubernetesObject, type Stored } from "@operetta/sdk";
import type { ConfigMap } from "@operetta/sdk/kinds";

/** One case as a behaviour sees it. */
export interface Case {
  readonly ctx: Context;
  /** The case itself. */
  readonly map: Stored<ConfigMap>;
  readonly namespace: string;
  /** Its arguments. */
  readonly data: Readonly<Record<string, string>>;
}

/** Carries out a behaviour and returns what it saw. */
export type Behaviour = (one: Case) => string;
export type Cases = Readonly<Record<string, Behaviour>>;

/** The suite's own kind. */
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

/** The key of the object that the case names. */
export function target({ namespace, data }: Case): { namespace: string; name: string } {
  const name = data["target"];
  if (!name) {
    throw new Error("the case has no data.target");
  }
  return { namespace, name };
}

/** One argument of the case. */
export function argument({ data }: Case, name: string): string {
  const value = data[name];
  if (value === undefined) {
    throw new Error(`the case has no data.${name}`);
  }
  return value;
}

/** The error of a call that must fail with one of the API server's. */
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

/** `VARIANT CODE REASON`. */
export function words({ kind, code, reason }: ApiError): string {
  return [kind, code, reason].join(" ");
}
