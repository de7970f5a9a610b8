/** Writes the message of each {{kind}} into a ConfigMap of the same name, and names it in the status. */
import { controller, definePlugin, keyOf, setControllerReference } from "@operetta/sdk";
import * as kinds from "@operetta/sdk/kinds";

import * as types from "./types.ts";

export default definePlugin({
  controllers: [
    controller({
      name: "{{singular}}",
      for: types.{{kind}},
      owns: [kinds.ConfigMap],
      ownNamespace: true,
      reconcile(ctx, object) {
        // Writes only if something changed.
        const { result } = ctx.createOrUpdate(kinds.ConfigMap, { metadata: keyOf(object) }, (map) => {
          map.data = { message: object.spec.message };
          setControllerReference(object, map);
        });
        if (result !== "unchanged") {
          console.info("ConfigMap written", { result });
          ctx.event(object, "Normal", "Written", "The message is in the ConfigMap");
        }

        if (object.status?.configMap !== object.metadata.name) {
          ctx.updateStatus({ ...object, status: { configMap: object.metadata.name } });
        }
      },
    }),
  ],
});
