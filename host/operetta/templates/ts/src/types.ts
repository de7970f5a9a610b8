/** The kind {{kind}} of {{group}}/{{version}}. After a change, `operetta generate` brings crd.yaml up to date. */
import { kind, type KubernetesObject } from "@operetta/sdk";

/** What is wanted. */
export interface {{kind}}Spec {
  /**
   * The text that the ConfigMap is to hold.
   * @minLength 1
   */
  message: string;
}

/** What there is. */
export interface {{kind}}Status {
  /** The ConfigMap that holds the text. */
  configMap?: string;
}

export interface {{kind}} extends KubernetesObject {
  spec: {{kind}}Spec;
  status?: {{kind}}Status;
}
export const {{kind}} = kind<{{kind}}>("{{group}}/{{version}}", "{{kind}}");
