//! The examples that `--help` prints below the flags of a command.

/// The examples of `operetta run`.
pub const RUN: &str = "Examples:
  # Run the host on the cluster of the current context
  operetta run

  # Run the host with a configuration, and serve metrics and logs to authorized users
  operetta run --config host.yaml --secure-address 0.0.0.0:8443";

/// The examples of `operetta install`.
pub const INSTALL: &str = "Examples:
  # Install or upgrade the host, and wait until it runs
  operetta install --image registry.example.com/operetta:0.1.0 --wait

  # Install hosts for the namespaces with the label operetta.dev/class=untrusted
  operetta install --class untrusted --image registry.example.com/operetta:0.1.0 --wait

  # Print the objects, with one replica and the ServiceMonitor
  operetta install --replicas 1 --with monitoring --dry-run=client -o yaml";

/// The examples of `operetta uninstall`.
pub const UNINSTALL: &str = "Examples:
  # Uninstall the host, and keep the Plugins
  operetta uninstall

  # Uninstall the hosts of a trust class
  operetta uninstall --class untrusted

  # Uninstall the host and delete all Plugins
  operetta uninstall --delete-plugins";

/// The examples of `operetta new`.
pub const NEW: &str = "Examples:
  # Create a plugin in Go for the kind Greeting in example.com/v1
  operetta new greeter --lang go --group example.com --version v1 --kind Greeting";

/// The examples of `operetta dev`.
pub const DEV: &str = "Examples:
  # Run this folder's plugin, and rebuild it on each save
  operetta dev

  # Keep the objects from one run to the next
  operetta dev ./greeter --data greeter.db

  # Use a cluster of the kubeconfig
  operetta dev --context kind-kind --namespace greeters";

/// The examples of `operetta test`.
pub const TEST: &str = "Examples:
  # Run the tests of this folder's project
  operetta test

  # Run the Go tests whose names contain 'Reconcile', and print their log
  operetta test ./greeter -- -v -run Reconcile";

/// The examples of `operetta build`.
pub const BUILD: &str = "Examples:
  # Build the project in this folder to build/NAME.wasm
  operetta build

  # Build and install faster, while developing
  operetta build --fast
  operetta bundle --fast build/greeter.wasm | kubectl apply --server-side -f -

  # Build another folder, and pass arguments to its compiler
  operetta build ./greeter -o greeter.wasm -- --features extra

  # Build a Go operator that was not written for Operetta (experimental)
  operetta build ./operator --main ./cmd/manager --ldflags '-X main.version=1.2.3'";

/// The examples of `operetta adopt`.
pub const ADOPT: &str = "Examples:
  # Report what the operator in this folder needs, and whether the host has it
  operetta adopt --check

  # Build it to build/NAME.wasm, and print the Plugin and the other manifests
  operetta adopt > manifests.yaml

  # Render a chart with values, and print the manifests without building
  operetta adopt --manifests charts/operator --set replicas=1 -n operators --no-build

  # Print what a Plugin replaced
  kubectl get plugin manager -n operators -o yaml | operetta adopt --unadopt -";

/// The examples of `operetta generate`.
pub const GENERATE: &str = "Examples:
  # Write the schema of the code's types into crd.yaml
  operetta generate

  # Print the ServiceAccount, Role and RoleBinding for what a component declares
  operetta generate rbac build/greeter.wasm | kubectl apply -f -";

/// The examples of `operetta check`.
pub const CHECK: &str = "Examples:
  # Check a component
  operetta check build/greeter.wasm

  # Print the names of its controllers
  operetta check build/greeter.wasm -o json | jq -r '.manifest.controllers[].name'";

/// The examples of `operetta bundle`.
pub const BUNDLE: &str = "Examples:
  # Install a component as the plugin \"greeter\"
  operetta bundle build/greeter.wasm --service-account greeter | kubectl apply --server-side -f -";

/// The examples of `operetta logs`.
pub const LOGS: &str = "Examples:
  # Print the last 20 lines and follow the log
  operetta logs greeter -n team -f --tail 20

  # Read it as a ServiceAccount, if the kubeconfig has a client certificate
  operetta logs greeter -n team --service-account reader

  # Read from a host on this machine
  operetta logs greeter -n team --host localhost:8080";

/// The examples of `operetta retry`.
pub const RETRY: &str = "Examples:
  # Reconcile all objects of the plugin whose last reconcile failed, now
  operetta retry greeter -n team

  # Reconcile two objects now, whether they failed or not
  operetta retry greeter hello other-namespace/hello -n team";

/// The examples of `operetta why`.
pub const WHY: &str = "Examples:
  # Explain who changed the replicas of a Deployment, and why
  operetta why deployment/web --field .spec.replicas -n team

  # Explain why a key of a plugin is not reconciled now, and its last reconciles
  operetta why greeter hello -n team

  # Draw the changes of an object as a sequence diagram
  operetta why foos/hello -o mermaid";

/// The examples of `operetta rbac`.
pub const RBAC: &str = "Examples:
  # Apply the Roles for what it has done; in the first hour they also keep its current rules
  operetta rbac greeter -n team | kubectl apply -f -

  # Apply the minimal Roles, once it has done all its work
  operetta rbac greeter -n team --exact | kubectl apply -f -

  # Print only how the Roles differ from the ServiceAccount's permissions
  operetta rbac greeter -n team --diff

Exit code with --diff: 0 no difference, 1 a difference, 2 an error.";

/// The examples of `operetta grant`.
pub const GRANT: &str = "Examples:
  # Let the host act as every ServiceAccount in a namespace that consents to a plugin
  operetta grant -n team

  # Let it act as one of them, and cache the Secrets that this one may watch
  operetta grant greeter -n team --allow secrets

  # Print what would be applied
  operetta grant greeter -n team -o yaml

  # Revoke it
  operetta grant greeter -n team --revoke";

/// The examples of `operetta top`.
pub const TOP: &str = "Examples:
  # Show the plugins of all namespaces, the busiest first
  operetta top -A

  # Show live rows of Deployments with a label
  operetta top deploy -A -l app=web

  # Print the plugins and their rates once, for a program
  operetta top -A -o json";

/// The examples of `operetta watch`.
pub const WATCH: &str = "Examples:
  # Watch the Deployments with a label in all namespaces
  operetta watch deploy -A -l app=web --output-watch-events

  # Watch one Pod, changes only
  operetta watch pod web-0 --watch-only -o json";

/// The examples of `operetta informers`.
pub const INFORMERS: &str = "Examples:
  # Print the informers with resource versions, selectors and errors
  operetta informers -o wide

  # Print those of one replica
  operetta informers --replica \"$(kubectl get plugin greeter -n team -o jsonpath='{.status.replica}')\"

  # Print those of a host on this machine
  operetta informers --host http://localhost:8080";

/// The examples of `operetta explain`.
pub const EXPLAIN: &str = "Examples:
  # Explain the reason that kubectl get plugins shows
  operetta explain ConsentMissing

  # List all codes
  operetta explain";

/// The examples of `operetta completion`.
pub const COMPLETION: &str = "Examples:
  source <(operetta completion bash)";
