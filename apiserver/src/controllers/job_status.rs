//! How a Job ends, and the conditions that report it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    control_loop::Context,
    job_tally::Tally,
    object::{condition, is_true, number, text},
};
use crate::server::format_time;

pub(super) fn is_finished(job: &Value) -> bool {
    is_true(&job["status"], "Complete") || is_true(&job["status"], "Failed")
}

/// How a Job ends.
pub(super) struct Verdict {
    is_success: bool,
    reason: &'static str,
    message: String,
}

/// How a Job ends, if that is decided.
pub(super) fn verdict(job: &Value, tally: &Tally, is_late: bool) -> Option<Verdict> {
    for (kind, is_success) in [("FailureTarget", false), ("SuccessCriteriaMet", true)] {
        if let Some(known) =
            condition(&job["status"], kind).filter(|known| known["status"] == "True")
        {
            let reasons = [
                "BackoffLimitExceeded",
                "DeadlineExceeded",
                "CompletionsReached",
            ];

            let reason = reasons
                .into_iter()
                .find(|reason| known["reason"] == **reason)?;
            return Some(Verdict {
                is_success,
                reason,
                message: text(known, &["message"]).to_owned(),
            });
        }
    }

    let failure = |reason, message: &str| {
        Some(Verdict {
            is_success: false,
            reason,
            message: message.to_owned(),
        })
    };

    if tally.failed > number(job, "/spec/backoffLimit", 6) {
        return failure(
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        );
    }
    if is_late && job["spec"]["suspend"] != true {
        return failure(
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        );
    }

    let is_complete = match job["spec"]["completions"].as_i64() {
        Some(completions) => tally.succeeded >= completions,
        None => tally.succeeded > 0 && tally.active.is_empty(),
    };

    let message = "Reached expected number of succeeded pods".to_owned();
    is_complete.then_some(Verdict {
        is_success: true,
        reason: "CompletionsReached",
        message,
    })
}

fn add(
    status: &mut Value,
    (kind, value): (&str, &str),
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let now = format_time(now);
    let new = json!({
        "type": kind, "status": value, "reason": reason, "message": message, "lastProbeTime": now,
        "lastTransitionTime": now,
    });

    match status["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != kind);
            conditions.push(new);
        }
        None => status["conditions"] = json!([new]),
    }
}

/// Records how a Job will end, before its Pods have ended.
pub(super) fn announce(status: &mut Value, verdict: &Verdict, now: Timestamp) {
    let kind = if verdict.is_success {
        "SuccessCriteriaMet"
    } else {
        "FailureTarget"
    };

    if !is_true(status, kind) {
        add(
            status,
            (kind, "True"),
            verdict.reason,
            &verdict.message,
            now,
        );
    }
}

/// Records the end of a Job.
pub(super) fn finish(job: &Value, status: &mut Value, verdict: &Verdict, context: &Context<'_>) {
    let kind = if verdict.is_success {
        "Complete"
    } else {
        "Failed"
    };

    add(
        status,
        (kind, "True"),
        verdict.reason,
        &verdict.message,
        context.now,
    );

    if verdict.is_success {
        status["completionTime"] = format_time(context.now).into();
        context
            .client
            .event(job, "Normal", "Completed", "Job completed");
    } else {
        context
            .client
            .event(job, "Warning", verdict.reason, &verdict.message);
    }
}

/// Records that a Job is suspended.
pub(super) fn suspend(job: &Value, status: &mut Value, context: &Context<'_>) {
    if is_true(status, "Suspended") {
        return;
    }

    add(
        status,
        ("Suspended", "True"),
        "JobSuspended",
        "Job suspended",
        context.now,
    );

    if let Some(members) = status.as_object_mut() {
        members.remove("startTime");
    }
    context
        .client
        .event(job, "Normal", "Suspended", "Job suspended");
}

/// Records that a Job was resumed.
pub(super) fn resume(job: &Value, status: &mut Value, context: &Context<'_>) {
    if is_true(status, "Suspended") {
        add(
            status,
            ("Suspended", "False"),
            "JobResumed",
            "Job resumed",
            context.now,
        );
        status["startTime"] = format_time(context.now).into();
        context
            .client
            .event(job, "Normal", "Resumed", "Job resumed");
    }
}
