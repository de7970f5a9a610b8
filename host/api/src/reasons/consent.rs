//! The reasons why a Plugin may not run, and the permissions that are missing.

reasons! {
    Consent:
    /// The namespace is not opted in: no plugin runs in it.
    NAMESPACE_NOT_ENABLED = "NamespaceNotEnabled",
        "As a cluster administrator: `kubectl label namespace NAMESPACE operetta.dev/plugins=enabled`.";
    /// The namespace is reserved for the cluster or the host, whose ServiceAccounts control both.
    NAMESPACE_RESERVED = "NamespaceReserved",
        "Use another namespace, or add it to `allowReservedNamespaces` of the host's configuration.";
    /// The namespace is of a trust class, by its label `operetta.dev/class`, and no host of that class
    /// is installed.
    CLASS_NOT_SERVED = "ClassNotServed",
        "As a cluster administrator: `operetta install --class CLASS`, or correct the label `operetta.dev/class` of the \
         namespace.";
    /// The Plugin names no ServiceAccount, or `default`, which every Pod of the namespace has.
    SERVICE_ACCOUNT_REQUIRED = "ServiceAccountRequired",
        "Create a ServiceAccount for the plugin, and set `spec.serviceAccountName`, or the annotation \
         `operetta.dev/service-account` of a drop-in ConfigMap.";
    /// The ServiceAccount that the Plugin names does not exist in its namespace.
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound",
        "`kubectl create serviceaccount NAME -n NAMESPACE`, with the annotation `operetta.dev/allow-plugins: PLUGIN`.";
    /// The name of the ServiceAccount is not valid.
    INVALID_SERVICE_ACCOUNT = "InvalidServiceAccount",
        "Correct `spec.serviceAccountName`.";
    /// The ServiceAccount does not consent to the plugin acting as it.
    CONSENT_MISSING = "ConsentMissing",
        "As whoever may change the ServiceAccount: `kubectl annotate serviceaccount NAME -n NAMESPACE \
         operetta.dev/allow-plugins=PLUGIN`. The message has the whole command.";
    /// The ServiceAccount consents to other code of this plugin, or must name a digest and does
    /// not.
    CODE_NOT_ALLOWED = "CodeNotAllowed",
        "If this code may act as the ServiceAccount, add `PLUGIN@DIGEST` to its annotation `operetta.dev/allow-plugins`. The \
         message has the command. If nobody changed the code on purpose, find out who did.";
    /// The ServiceAccount lacks a permission that a watch or a call of the plugin needs. For a
    /// call, the condition has the reason `ReconcileFailing`.
    FORBIDDEN = "Forbidden",
        "Bind a Role to the ServiceAccount: the message has the command. `operetta generate rbac FILE.wasm` prints the \
         Roles for the manifest, `operetta rbac PLUGIN -n NAMESPACE` those for what the plugin has done.";
    /// The host lacks a permission for a watch that the plugin needs, or may not impersonate its
    /// ServiceAccount.
    HOST_FORBIDDEN = "HostForbidden",
        "As a cluster administrator: `operetta grant SERVICEACCOUNT -n NAMESPACE`. Run it again when the ServiceAccount gets \
         more permissions.";
}
