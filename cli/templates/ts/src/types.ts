/** The kind {{kind}} of {{group}}/{{version}}. After a change, `operetta generate` updates crd.yaml. */
import { kind, type KubernetesObject } from "@operetta/sdk";

/** The desired state of a {{kind}}. */
export interface {{kind}}Spec {
  /**
   * The text of the ConfigMap.
   * @minLength 1
   */
  message: string;
}

/** The observed state of a {{kind}}. */
export interface {{kind}}Status {
  /** The name of the ConfigMap with the text. */
  configMap?: string;
}

export interface {{kind}} extends KubernetesObject {
  spec: {{kind}}Spec;
  status?: {{kind}}Status;
}
export const {{kind}} = kind<{{kind}}>("{{group}}/{{version}}", "{{kind}}");
