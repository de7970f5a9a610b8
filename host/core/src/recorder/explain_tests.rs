//! Explanations from records, without an API server.

use std::sync::Arc;

use super::{
    explain::{Because, Explanation, FactSource, Question, Step, Writer, explain, nth_retry},
    *,
};
use crate::{
    controller::request::ReconcileRequest,
    gate::{
        call::{Call, Resource},
        operation::Verb,
    },
    object::{ManagedFields, Object, kind::GroupVersionKind},
    recorder::record::ObjectRef,
};

/// The facts of a recorder, without those that the asker may not see.
struct Visible {
    recorder: Arc<Recorder>,
    hidden_object: Option<ObjectRef>,
    hidden_plugin: Option<ObjectKey>,
}

#[async_trait::async_trait]
impl FactSource for Visible {
    async fn facts(&self, object: &ObjectRef) -> Option<Facts> {
        let Facts { changes, writes } = self.recorder.facts(object);
        let shown = |write: WriteFact| match self.hidden_plugin.as_ref() == Some(&write.plugin) {
            true => write.hidden(),
            false => write,
        };
        let facts = Facts {
            changes,
            writes: writes.into_iter().map(shown).collect(),
        };
        (self.hidden_object.as_ref() != Some(object)).then_some(facts)
    }
}

fn object(kind: &str, name: &str, version: u32, spec: &str) -> Arc<Object> {
    let text = format!(
        r#"{{"apiVersion":"apps/v1","kind":"{kind}","metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}},"spec":{spec}}}"#
    );
    let kind = GroupVersionKind::new("apps/v1", kind);
    Arc::new(Object::from_json(&text, &kind, ManagedFields::Keep).expect("an object"))
}

/// Returns managedFields that name one writer.
fn managed_by(manager: &str) -> String {
    format!(r#"[{{"manager":"{manager}","time":"2026-01-01T00:00:00Z","fieldsV1":{{}}}}]"#)
}

/// A host whose plugin `p` writes a Deployment for each Foo.
struct Host {
    recorder: Arc<Recorder>,
    plugin: Arc<PluginRecorder>,
}

impl Host {
    fn new() -> Self {
        let recorder = Recorder::new(Limits::default(), None);
        let source = Source {
            digest: "sha256:1".to_owned(),
            ..Source::default()
        };
        let plugin = recorder.of_plugin(&ObjectKey::namespaced("n", "p"), source);
        Self { recorder, plugin }
    }

    /// Records a change that a watch sees.
    fn changes(&self, old: &Arc<Object>, new: &Arc<Object>, manager: &str) -> Event {
        let event = Event::Modified {
            old: old.clone(),
            object: new.clone(),
        };
        self.recorder.change(&event, Some(&managed_by(manager)));
        event
    }

    /// Records a reconcile that these events trigger, and that writes an object.
    fn reconciles(&self, key: &str, triggers: &[Event], written: &Arc<Object>) {
        self.reconciles_after(key, triggers, &[], written);
    }

    /// Records a reconcile that these events trigger, and that reads these objects and writes one.
    fn reconciles_after(
        &self,
        key: &str,
        triggers: &[Event],
        reads: &[&Arc<Object>],
        written: &Arc<Object>,
    ) {
        self.retries(0, key, triggers, reads, written);
    }

    /// Records a reconcile after this many failed ones of its key.
    fn retries(
        &self,
        retries: u32,
        key: &str,
        triggers: &[Event],
        reads: &[&Arc<Object>],
        written: &Arc<Object>,
    ) {
        let pending = PendingTriggers::default();
        let key = ObjectKey::namespaced("n", key);
        triggers
            .iter()
            .for_each(|event| pending.add(&key, Trigger::of_event(event)));
        let request = ReconcileRequest {
            controller: "c".to_owned(),
            key: key.clone(),
            retries,
            reconcile_id: format!("r-{}", written.resource_version()),
            record: None,
        };
        let kind = GroupVersionKind::new("apps/v1", "Foo");
        let reconcile =
            request.begin_record(self.plugin.clone(), &kind, pending.take(&key), None, None);
        let calls = reads
            .iter()
            .map(|read| (Verb::Get, *read))
            .chain([(Verb::Update, written)]);
        for (verb, object) in calls {
            let kind = object.scalar_at("kind").unwrap_or_default();
            let call = Call {
                verb,
                resource: Resource::Kind(GroupVersionKind::new("apps/v1", kind)),
                subresource: None,
                namespace: Some("n".to_owned()),
                name: Some(object.key().name.clone()),
                field_selector: None,
                field_manager: None,
                is_cached: false,
                is_dry_run: false,
            };
            let call = reconcile.begin_call(&call).expect("room");
            call.change(|call| call.resource_version = object.resource_version().to_owned());
            call.end(None);
        }
        reconcile.end(&Outcome {
            result: "success",
            requeue_after: None,
            error: None,
        });
    }

    async fn why(&self, object: &Arc<Object>, field: Option<&str>) -> Option<Explanation> {
        let source = Visible {
            recorder: self.recorder.clone(),
            hidden_object: None,
            hidden_plugin: None,
        };
        ask(&source, object, field).await
    }
}

async fn ask(source: &Visible, object: &Arc<Object>, field: Option<&str>) -> Option<Explanation> {
    let question = Question {
        object: ObjectRef::of(object),
        field: field.map(str::to_owned),
        limit: 10,
    };
    explain(source, &question).await
}

fn managers(step: &Step) -> Vec<&str> {
    match &step.by {
        Writer::Outside { managers } => managers.iter().map(String::as_str).collect(),
        _ => vec![],
    }
}

fn plugin(step: &Step) -> &str {
    match &step.by {
        Writer::Plugin(writer) => &writer.plugin,
        _ => "",
    }
}

/// A person scales the Deployment, the plugin reverts it.
fn reverted(host: &Host) -> [Arc<Object>; 3] {
    let versions = [(1, 3), (2, 5), (3, 3)];
    let [first, scaled, reverted] = versions.map(|(version, replicas)| {
        object(
            "Deployment",
            "d",
            version,
            &format!(r#"{{"replicas":{replicas},"x":1}}"#),
        )
    });
    let event = host.changes(&first, &scaled, "kubectl");
    host.reconciles("foo", &[event], &reverted);
    host.changes(&scaled, &reverted, "operetta:n/p");
    [first, scaled, reverted]
}

#[tokio::test(start_paused = true)]
async fn chain_leads_from_plugin_to_person() {
    let host = Host::new();
    let [.., deployment] = reverted(&host);
    let explanation = host
        .why(&deployment, Some(".spec.replicas"))
        .await
        .expect("visible");
    let [last, scaled] = explanation.changes.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!((plugin(last), last.resource_version.as_str()), ("n/p", "3"));
    assert_eq!(
        last.paths.as_deref(),
        Some(&[".spec.replicas".to_owned()][..])
    );
    let [Because::Change(cause)] = last.because.as_slice() else {
        panic!("{last:?}")
    };
    assert_eq!(
        (managers(cause), cause.resource_version.as_str()),
        (vec!["kubectl"], "2")
    );
    assert_eq!(managers(scaled), ["kubectl"]);
    assert_eq!((explanation.older, explanation.hidden), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn change_that_came_after_the_trigger_and_was_read_is_a_cause() {
    let host = Host::new();
    let status = |version: u32| {
        object(
            "Deployment",
            "d",
            version,
            &format!(r#"{{"replicas":3,"ready":{version}}}"#),
        )
    };
    let event = host.changes(&status(1), &status(2), "controller");
    let scaled = object("Deployment", "d", 3, r#"{"replicas":5,"ready":2}"#);
    host.changes(&status(2), &scaled, "kubectl");
    let foo = object("Foo", "foo", 1, "{}");
    let reverted = object("Deployment", "d", 4, r#"{"replicas":3,"ready":2}"#);
    host.reconciles_after("foo", &[event], &[&foo, &scaled], &reverted);
    host.changes(&scaled, &reverted, "operetta:n/p");
    let explanation = host
        .why(&reverted, Some(".spec.replicas"))
        .await
        .expect("visible");
    let causes: Vec<_> = explanation.changes[0]
        .because
        .iter()
        .map(|because| match because {
            Because::Change(step) => (managers(step), step.resource_version.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(causes, [(vec!["controller"], "2"), (vec!["kubectl"], "3")]);
}

#[tokio::test(start_paused = true)]
async fn all_changes_between_the_trigger_and_the_read_are_causes() {
    let host = Host::new();
    let version = |version: u32, replicas: u32| {
        object(
            "Deployment",
            "d",
            version,
            &format!(r#"{{"replicas":{replicas},"seen":{version}}}"#),
        )
    };
    let event = host.changes(&version(1, 3), &version(2, 3), "controller");
    host.changes(&version(2, 3), &version(3, 5), "kubectl");
    host.changes(&version(3, 5), &version(4, 5), "controller");
    host.reconciles_after("foo", &[event], &[&version(4, 5)], &version(5, 3));
    let explanation = host.why(&version(5, 3), None).await.expect("visible");
    let causes = explanation.changes[0]
        .because
        .iter()
        .map(|because| match because {
            Because::Change(step) => step.resource_version.as_str(),
            other => panic!("{other:?}"),
        });
    assert_eq!(causes.collect::<Vec<_>>(), ["2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn field_selects_changes_of_it_its_parts_and_its_parents() {
    let host = Host::new();
    let versions = [
        r#"{"a":{"b":1},"c":1}"#,
        r#"{"a":{"b":2},"c":1}"#,
        r#"{"a":{"b":2},"c":2}"#,
        r#"{"c":2}"#,
    ];
    let objects: Vec<_> = versions
        .iter()
        .zip(1..)
        .map(|(spec, version)| object("Foo", "f", version, spec))
        .collect();
    objects.windows(2).for_each(|pair| {
        host.changes(&pair[0], &pair[1], "kubectl");
    });
    for (field, expected) in [
        (".spec.a.b", vec!["4", "2"]),
        (".spec.a", vec!["4", "2"]),
        (".spec.c", vec!["3"]),
    ] {
        let explanation = host.why(&objects[3], Some(field)).await.expect("visible");
        let versions: Vec<_> = explanation
            .changes
            .iter()
            .map(|step| step.resource_version.as_str())
            .collect();
        assert_eq!(versions, expected, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn asker_without_rights_gets_less_and_is_told() {
    let host = Host::new();
    let [.., deployment] = reverted(&host);
    let foo = object("Foo", "foo", 9, "{}");
    let event = host.changes(&object("Foo", "foo", 8, r#"{"a":1}"#), &foo, "kubectl");
    let newer = object("Deployment", "d", 4, r#"{"replicas":4}"#);
    host.reconciles("foo", &[event], &newer);
    host.changes(&deployment, &newer, "operetta:n/p");
    let source = |hidden_object, hidden_plugin| Visible {
        recorder: host.recorder.clone(),
        hidden_object,
        hidden_plugin,
    };

    let without_foo = ask(&source(Some(ObjectRef::of(&foo)), None), &newer, None)
        .await
        .expect("visible");
    assert_eq!(
        (&without_foo.changes[0].because[..], without_foo.hidden),
        (&[Because::Hidden][..], 1)
    );

    let plugin = ObjectKey::namespaced("n", "p");
    let without_plugin = ask(&source(None, Some(plugin)), &newer, None)
        .await
        .expect("visible");
    assert_eq!(
        (&without_plugin.changes[0].by, without_plugin.hidden),
        (&Writer::HiddenPlugin, 2),
        "of two changes"
    );
    let json = serde_json::to_string(&without_plugin).expect("JSON");
    assert!(!json.contains("sha256") && !json.contains("r-4"), "{json}");

    assert_eq!(
        ask(&source(Some(ObjectRef::of(&newer)), None), &newer, None).await,
        None
    );
}

#[tokio::test(start_paused = true)]
async fn objects_that_trigger_each_other_end_the_chain() {
    let host = Host::new();
    let spec = |version: u32| format!(r#"{{"a":{version}}}"#);
    let foo = |version: u32| object("Foo", "foo", version, &spec(version));
    let deployment = |version: u32| object("Deployment", "d", version, &spec(version));
    for round in 0..40 {
        let version = 10 * round;
        let event = host.changes(&foo(version), &foo(version + 1), "operetta:n/p");
        host.reconciles("foo", &[event], &deployment(version + 2));
        let event = host.changes(
            &deployment(version),
            &deployment(version + 2),
            "operetta:n/p",
        );
        host.reconciles("foo", &[event], &foo(version + 11));
    }
    let explanation = host.why(&deployment(392), None).await.expect("visible");
    assert_eq!((explanation.changes.len(), explanation.older), (10, 30));
    let json = serde_json::to_string(&explanation).expect("JSON");
    assert!(json.len() < 200_000, "{} bytes", json.len());
}

#[tokio::test(start_paused = true)]
async fn write_without_watch_is_explained_by_its_reconcile() {
    let host = Host::new();
    let foo = object("Foo", "foo", 2, r#"{"a":1}"#);
    let event = Event::Added {
        object: foo.clone(),
        initial: true,
    };
    let unwatched = object("Job", "j", 7, "{}");
    host.reconciles("foo", &[event], &unwatched);
    let explanation = host.why(&unwatched, None).await.expect("visible");
    let [step] = explanation.changes.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!((plugin(step), step.paths.as_ref()), ("n/p", None));
    let [Because::Other { text }] = step.because.as_slice() else {
        panic!("{step:?}")
    };
    assert!(text.contains("started here"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn write_of_a_retry_is_explained_by_its_number_and_the_event_before() {
    let host = Host::new();
    let foo = object("Foo", "foo", 2, r#"{"a":1}"#);
    let event = Event::Added {
        object: foo.clone(),
        initial: false,
    };
    let written = object("Job", "j", 7, "{}");
    host.retries(15, "foo", &[event], &[], &written);

    let explanation = host.why(&written, None).await.expect("visible");
    let [step] = explanation.changes.as_slice() else {
        panic!("{explanation:?}")
    };
    let [Because::Other { text }, Because::Unrecorded { object, .. }] = step.because.as_slice()
    else {
        panic!("{step:?}")
    };
    assert_eq!(
        (text.as_str(), object.name.as_str()),
        ("the 15th retry", "foo")
    );
}

#[test]
fn retries_are_numbered_as_one_says_it() {
    for (retries, words) in [
        (1, "the 1st retry"),
        (2, "the 2nd retry"),
        (3, "the 3rd retry"),
        (4, "the 4th retry"),
        (11, "the 11th retry"),
        (22, "the 22nd retry"),
        (113, "the 113th retry"),
    ] {
        assert_eq!(nth_retry(retries), words);
    }
}
