//! client-go's workqueue example as an Operetta plugin: logs each change of the Pods in the
//! Plugin's namespace, and drops a Pod whose sync fails too often.

use operetta_sdk::k8s_openapi::api::core::v1::Pod;
use operetta_sdk::{Action, Context, Controller, Error, Object, OnlyMetadata, Plugin, tracing};

/// The retries of a failing sync.
const MAX_RETRIES: u32 = 5;

/// Annotation of a Pod whose sync fails; its value is `true`. Nothing else can fail in a controller
/// that only reads.
const FAIL: &str = "pod-tracker.operetta.dev/fail";

operetta_sdk::plugin!(plugin);

/// Returns the controller of the Pods in the Plugin's own namespace.
pub fn plugin() -> Plugin {
    Plugin::new().controller(Controller::new("pod", reconcile).own_namespace())
}

fn reconcile(ctx: &Context, pod: Option<OnlyMetadata<Pod>>) -> Result<Action, Error> {
    let request = ctx.request();
    match sync(ctx, pod) {
        Err(error) if request.retries >= MAX_RETRIES => {
            let message = format!("Dropping pod \"{}\" out of the queue: {error}", request.key);
            tracing::error!("{message}");
            Err(Error::terminal(message))
        }
        result => result,
    }
}

fn sync(ctx: &Context, pod: Option<OnlyMetadata<Pod>>) -> Result<Action, Error> {
    let Some(pod) = pod else {
        tracing::info!("Pod {} does not exist anymore", ctx.request().key);
        return Ok(Action::done());
    };
    if pod.annotation(FAIL) == Some("true") {
        return Err(Error::msg(format!("annotation {FAIL} is \"true\"")));
    }
    tracing::info!("Sync/Add/Update for Pod {}", pod.name());
    Ok(Action::done())
}

#[cfg(test)]
mod tests {
    use operetta_sdk::k8s_openapi::api::core::v1::{Container, PodSpec};
    use operetta_sdk::testing::Cluster;
    use operetta_sdk::{Level, Request, object_meta};

    use super::*;

    fn pod() -> Pod {
        let container = Container {
            name: "a".to_owned(),
            image: Some("a".to_owned()),
            ..Container::default()
        };
        let spec = Some(PodSpec {
            containers: vec![container],
            ..PodSpec::default()
        });
        Pod {
            metadata: object_meta(("default", "mypod")),
            spec,
            ..Pod::default()
        }
    }

    fn failing() -> Pod {
        let mut pod = pod();
        pod.annotations_mut()
            .insert(FAIL.to_owned(), "true".to_owned());
        pod
    }

    fn reconcile(cluster: &Cluster, retries: u32) -> Result<Action, Error> {
        let request = Request {
            retries,
            ..Request::new("pod", ("default", "mypod"))
        };
        cluster.reconcile_request(&plugin(), request)
    }

    fn logged(cluster: &Cluster) -> Vec<(Level, String)> {
        cluster
            .logs()
            .into_iter()
            .map(|line| (line.level, line.message))
            .collect()
    }

    #[test]
    fn logs_name_of_existing_pod() {
        let cluster = Cluster::new().with(pod());
        assert_eq!(reconcile(&cluster, 0).expect("syncs"), Action::done());
        assert_eq!(
            logged(&cluster),
            [(Level::Info, "Sync/Add/Update for Pod mypod".to_owned())]
        );
    }

    #[test]
    fn logs_that_pod_is_gone() {
        let cluster = Cluster::new();
        assert_eq!(reconcile(&cluster, 0).expect("syncs"), Action::done());
        assert_eq!(
            logged(&cluster),
            [(
                Level::Info,
                "Pod default/mypod does not exist anymore".to_owned()
            )]
        );
    }

    #[test]
    fn drops_pod_after_five_retries() {
        let cluster = Cluster::new().with(failing());
        for retries in 0..5 {
            assert!(
                !reconcile(&cluster, retries)
                    .expect_err("fails")
                    .is_terminal(),
                "retry {retries}"
            );
        }
        assert!(logged(&cluster).is_empty());
        let error = reconcile(&cluster, 5).expect_err("fails");
        assert!(error.is_terminal());
        let message = "Dropping pod \"default/mypod\" out of the queue: annotation pod-tracker.operetta.dev/fail is \"true\"";
        assert_eq!(error.to_string(), message);
        assert_eq!(logged(&cluster), [(Level::Error, message.to_owned())]);
    }
}
