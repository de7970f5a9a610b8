//! The cells of workloads, budgets and autoscalers.

use serde_json::Value;

use super::super::{
    codec::Instant,
    object::{at, fields, has, int, is_true, items, text},
};
use super::{Printer, format};
use crate::apimachinery::duration;

const CONTAINERS: &str = "spec.template.spec.containers";

pub(super) fn cells(kind: &str, printer: &Printer<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Deployment" => deployment(printer),
        "ReplicaSet" | "ReplicationController" => replicas(kind, printer),
        "StatefulSet" => stateful_set(printer),
        "DaemonSet" => daemon_set(printer),
        "ControllerRevision" => controller_revision(printer),
        "PodTemplate" => {
            let [names, images] =
                format::containers(items(printer.object, "template.spec.containers"));
            let labels = format::labels(fields(printer.object, "template.metadata.labels"));
            vec![printer.name(), names, images, labels.into()]
        }
        "Job" => job(printer),
        "CronJob" => cron_job(printer),
        "PodDisruptionBudget" => vec![
            printer.name(),
            number_or_text(printer.at("spec.minAvailable")),
            number_or_text(printer.at("spec.maxUnavailable")),
            printer.number("status.disruptionsAllowed").into(),
            printer.age(),
        ],
        "HorizontalPodAutoscaler" => autoscaler(printer),
        _ => return None,
    })
}

fn number_or_text(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

fn wide(printer: &Printer<'_>) -> [Value; 2] {
    format::containers(items(printer.object, CONTAINERS))
}

fn deployment(printer: &Printer<'_>) -> Vec<Value> {
    let [names, images] = wide(printer);
    let ready = format!(
        "{}/{}",
        printer.number("status.readyReplicas"),
        printer.number("spec.replicas")
    );

    vec![
        printer.name(),
        ready.into(),
        printer.number("status.updatedReplicas").into(),
        printer.number("status.availableReplicas").into(),
        printer.age(),
        names,
        images,
        format::selector(printer.at("spec.selector")).into(),
    ]
}

fn replicas(kind: &str, printer: &Printer<'_>) -> Vec<Value> {
    let [names, images] = wide(printer);
    let selector = match kind {
        "ReplicaSet" => format::selector_or_none(printer.at("spec.selector")),
        _ => format::labels(fields(printer.object, "spec.selector")),
    };

    vec![
        printer.name(),
        printer.number("spec.replicas").into(),
        printer.number("status.replicas").into(),
        printer.number("status.readyReplicas").into(),
        printer.age(),
        names,
        images,
        selector.into(),
    ]
}

fn stateful_set(printer: &Printer<'_>) -> Vec<Value> {
    let [names, images] = wide(printer);
    let ready = format!(
        "{}/{}",
        printer.number("status.readyReplicas"),
        printer.number("spec.replicas")
    );

    vec![printer.name(), ready.into(), printer.age(), names, images]
}

fn daemon_set(printer: &Printer<'_>) -> Vec<Value> {
    let [names, images] = wide(printer);
    let count = |key: &str| Value::from(printer.number(&format!("status.{key}")));

    vec![
        printer.name(),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        format::labels(fields(printer.object, "spec.template.spec.nodeSelector")).into(),
        printer.age(),
        names,
        images,
        format::selector_or_none(printer.at("spec.selector")).into(),
    ]
}

fn controller_revision(printer: &Printer<'_>) -> Vec<Value> {
    let owners = items(printer.object, "metadata.ownerReferences");

    let controller = owners
        .iter()
        .find(|owner| is_true(owner, "controller"))
        .map(|owner| {
            let group = text(owner, "apiVersion")
                .split_once('/')
                .map_or(String::new(), |(group, _)| format!(".{group}"));
            format!(
                "{}{group}/{}",
                text(owner, "kind").to_lowercase(),
                text(owner, "name")
            )
        });

    vec![
        printer.name(),
        controller.unwrap_or_else(|| "<none>".to_owned()).into(),
        printer.number("revision").into(),
        printer.age(),
    ]
}

fn job(printer: &Printer<'_>) -> Vec<Value> {
    let job = printer.object;
    let succeeded = printer.number("status.succeeded");

    let completions = match (
        int(job, "spec.completions"),
        printer.number("spec.parallelism"),
    ) {
        (Some(all), _) => format!("{succeeded}/{all}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };

    let [names, images] = wide(printer);
    vec![
        printer.name(),
        job_status(job).into(),
        completions.into(),
        job_duration(printer).into(),
        printer.age(),
        names,
        images,
        format::selector_or_none(printer.at("spec.selector")).into(),
    ]
}

fn job_duration(printer: &Printer<'_>) -> String {
    let time = |path: &str| Instant::parse(printer.text(path)).ok();
    let Some(start) = time("status.startTime") else {
        return String::new();
    };
    let end = time("status.completionTime").unwrap_or(printer.now);
    duration::human(end.since(start))
}

fn job_status(job: &Value) -> &'static str {
    let conditions = items(job, "status.conditions");
    let is = |kind: &str| {
        conditions
            .iter()
            .any(|found| found["type"] == kind && found["status"] == "True")
    };

    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if has(job, "metadata.deletionTimestamp") => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn cron_job(printer: &Printer<'_>) -> Vec<Value> {
    let template = printer.at("spec.jobTemplate.spec");
    let [names, images] =
        format::containers(items(template, CONTAINERS.trim_start_matches("spec.")));

    let last = if has(printer.object, "status.lastScheduleTime") {
        printer.since("status.lastScheduleTime")
    } else {
        "<none>".to_owned()
    };

    let suspend = if is_true(printer.object, "spec.suspend") {
        "True"
    } else {
        "False"
    };

    vec![
        printer.name(),
        printer.text("spec.schedule").into(),
        printer.text_or("spec.timeZone", "<none>"),
        suspend.into(),
        items(printer.object, "status.active").len().into(),
        last.into(),
        printer.age(),
        names,
        images,
        format::selector_or_none(at(template, "selector")).into(),
    ]
}

fn autoscaler(printer: &Printer<'_>) -> Vec<Value> {
    let target = printer.at("spec.scaleTargetRef");
    let minimum = int(printer.object, "spec.minReplicas");

    vec![
        printer.name(),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        metrics(printer.object).into(),
        minimum
            .map_or_else(|| "<unset>".to_owned(), |minimum| minimum.to_string())
            .into(),
        printer.number("spec.maxReplicas").into(),
        printer.number("status.currentReplicas").into(),
        printer.age(),
    ]
}

fn metrics(object: &Value) -> String {
    const SHOWN: usize = 2;

    let current = items(object, "status.currentMetrics");
    let specs = items(object, "spec.metrics");

    if specs.is_empty() {
        return "<none>".to_owned();
    }

    let list: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| metric(spec, current.get(index).unwrap_or(&Value::Null)))
        .collect();

    let head = list
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");

    match list.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{head} + {more} more..."),
        _ => head,
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let kind = text(spec, "type");
    let (key, named) = match kind {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };

    let target = at(at(spec, key), "target");
    let current = at(at(status, key), "current");
    let shown = |value: &Value| value.as_str().map(str::to_owned);
    let unknown = || "<unknown>".to_owned();

    if named {
        let name = text(at(spec, key), "name");
        if let Some(average) = shown(&target["averageValue"]) {
            return format!(
                "{name}: {}/{average}",
                shown(&current["averageValue"]).unwrap_or_else(unknown)
            );
        }

        let percent = |value: &Value| value.as_i64().map(|number| format!("{number}%"));
        let now = percent(&current["averageUtilization"]).unwrap_or_else(unknown);
        let wanted = percent(&target["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned());
        return format!("{name}: {now}/{wanted}");
    }

    match shown(&target["averageValue"]) {
        Some(average) => {
            let suffix = if kind == "Pods" { "" } else { " (avg)" };
            format!(
                "{}/{average}{suffix}",
                shown(&current["averageValue"]).unwrap_or_else(unknown)
            )
        }
        None => {
            let wanted = shown(&target["value"]).unwrap_or_else(|| "0".to_owned());
            format!(
                "{}/{wanted}",
                shown(&current["value"]).unwrap_or_else(unknown)
            )
        }
    }
}
