/** A kind for tests. */
import { kind, type KubernetesObject } from "@operetta/sdk";

export interface Foo extends KubernetesObject {
  spec: { size?: number | bigint; names?: string[] };
  status?: { phase?: string };
}
export const Foo = kind<Foo>("e.dev/v1", "Foo");

export const key = { namespace: "ns", name: "a" };

export function foo(spec: Foo["spec"] = {}): Foo {
  return { metadata: { ...key }, spec };
}
