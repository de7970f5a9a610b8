//! Two tenants with a namespace each, their permissions and objects. Compares the gate's answers
//! with the oracle's.

use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::{authz::access_review::ServiceAccount, gate::Gate};
use operetta_testkit::TestNamespace;
use rand::{
    Rng,
    rngs::StdRng,
    seq::{IndexedRandom, IteratorRandom},
};
use serde_json::json;

use crate::{
    call::{Act, Answer, Call, Kind, object},
    hostile, oracle,
    world::{Rights, World},
};

/// The longest time that a change of permissions or of an object may take to reach the host's
/// caches.
const IN_EFFECT: Duration = Duration::from_secs(5);

/// The number of steps in a sequence.
const STEPS: usize = 8;

/// The most bindings that both tenants have together. With more of them, nearly every call would be
/// allowed.
const MAX_BINDINGS: usize = 6;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The counts of a run's calls and their responses.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub sequences: u64,
    calls: u64,
    hostile: u64,
    changes: u64,
    allowed: u64,
    forbidden: u64,
    other: u64,
    /// The calls for which the gate and the oracle did not agree at once.
    late: u64,
    /// The longest time until the gate and the oracle agreed.
    latest: Duration,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.calls += other.calls;
        self.hostile += other.hostile;
        self.changes += other.changes;
        self.allowed += other.allowed;
        self.forbidden += other.forbidden;
        self.other += other.other;
        self.late += other.late;
        self.latest = self.latest.max(other.latest);
    }

    /// Reports whether each outcome is at least a twentieth of all calls.
    pub fn is_varied(&self) -> bool {
        [self.allowed, self.forbidden, self.other]
            .iter()
            .all(|part| part * 20 >= self.calls)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequences, {} calls ({} allowed, {} forbidden, {} otherwise refused), {} malformed calls, \
             {} changes of permissions; {} answers were late, the latest by {} ms",
            self.sequences,
            self.calls,
            self.allowed,
            self.forbidden,
            self.other,
            self.hostile,
            self.changes,
            self.late,
            self.latest.as_millis()
        )
    }
}

struct Tenant {
    account: ServiceAccount,
    gate: Arc<Gate>,
}

pub struct Lane<'a> {
    world: &'a World,
    number: u64,
    random: StdRng,
    namespaces: [String; 2],
    node: String,
    tenants: [Tenant; 2],
    /// The path of each RoleBinding and ClusterRoleBinding.
    bindings: BTreeSet<String>,
    /// The time of the last change of permissions.
    changed: Instant,
    /// The steps of the current sequence, for the message of a failed assertion.
    steps: Vec<String>,
    pub counts: Counts,
    _namespaces: Vec<TestNamespace<'static>>,
}

impl<'a> Lane<'a> {
    pub async fn new(world: &'a World, number: u64, random: StdRng) -> Self {
        let mut all = Vec::new();
        for tenant in ["a", "b"] {
            all.push(
                world
                    .control_plane
                    .namespace(&format!("gate-{number}-{tenant}"))
                    .await,
            );
        }
        let namespaces = [all[0].name().to_owned(), all[1].name().to_owned()];
        let node = format!("gate-{number}");
        let canary = canary(number, Kind::Node, "", &node, 0);
        let body = json!({"metadata": {"name": node, "annotations": {"canary": canary}}});
        world
            .send("POST", "/api/v1/nodes", Some(body))
            .await
            .expect("created");
        let tenants = namespaces.clone().map(|namespace| {
            let account = ServiceAccount {
                namespace,
                name: "plugin".to_owned(),
            };
            Tenant {
                gate: world.gate(&account),
                account,
            }
        });
        Self {
            world,
            number,
            random,
            namespaces,
            node,
            tenants,
            bindings: BTreeSet::new(),
            changed: Instant::now(),
            steps: Vec::new(),
            counts: Counts::default(),
            _namespaces: all,
        }
    }

    /// Runs one sequence: a change of permissions, then calls and further changes.
    pub async fn sequence(&mut self) {
        self.steps.clear();
        self.change_rights().await;
        for _ in 1..STEPS {
            match self.random.random_range(0..20) {
                0..=1 => self.change_rights().await,
                2..=3 => self.change_object().await,
                4..=5 => self.hostile_call().await,
                _ => self.call().await,
            }
        }
        self.counts.sequences += 1;
    }

    /// Creates or deletes a binding that grants a tenant permissions in a namespace or in the whole
    /// cluster.
    async fn change_rights(&mut self) {
        let tenant = self.random.random_range(0..2);
        let rights = *Rights::ALL.choose(&mut self.random).expect("rights");
        let account = &self.tenants[tenant].account;
        let name = format!("gate-{}-{tenant}-{}", self.number, rights.role());
        let place = self.random.random_range(0..5);
        let collection = match place {
            0 => format!("{RBAC}/clusterrolebindings"),
            _ => format!(
                "{RBAC}/namespaces/{}/rolebindings",
                self.namespaces[place % 2]
            ),
        };
        let mut path = format!("{collection}/{name}");
        if self.bindings.len() > MAX_BINDINGS {
            path = self
                .bindings
                .iter()
                .choose(&mut self.random)
                .expect("bindings")
                .clone();
        }
        self.steps.push(format!("toggle {path}"));
        if self.bindings.remove(&path) {
            self.world
                .send("DELETE", &path, None)
                .await
                .expect("deleted");
        } else {
            let binding = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": rights.role()},
                "subjects": [{"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}],
            });
            self.world
                .send("POST", &collection, Some(binding))
                .await
                .expect("created");
            self.bindings.insert(path);
        }
        self.changed = Instant::now();
        self.counts.changes += 1;
    }

    /// Creates, changes or deletes an object as the test, not as a tenant.
    async fn change_object(&mut self) {
        let kind = *[Kind::ConfigMap, Kind::Secret]
            .choose(&mut self.random)
            .expect("kinds");
        let namespace = self
            .namespaces
            .choose(&mut self.random)
            .expect("namespaces")
            .clone();
        let name = *["one", "two", "three"]
            .choose(&mut self.random)
            .expect("names");
        let collection = format!("/api/v1/namespaces/{namespace}/{}", kind.plural());
        let path = format!("{collection}/{name}");
        let exists = self.world.send("GET", &path, None).await.is_ok();
        let content = canary(
            self.number,
            kind,
            &namespace,
            name,
            self.random.random_range(0..3),
        );
        self.steps.push(format!("the test changes {path}"));
        let data = json!({"canary": content});
        let done = match (exists, self.random.random_bool(0.3)) {
            (false, _) => {
                self.world
                    .send(
                        "POST",
                        &collection,
                        Some(object(kind, Some(&namespace), name, data)),
                    )
                    .await
            }
            (true, true) => self.world.send("DELETE", &path, None).await,
            (true, false) => {
                self.world
                    .send("PATCH", &path, Some(json!({"data": data})))
                    .await
            }
        };
        done.expect("changed");
    }

    async fn hostile_call(&mut self) {
        let attacker = self.random.random_range(0..2);
        let victim = self.namespaces[1 - attacker].clone();
        let mut session = self.tenants[attacker].gate.session(None);
        let (what, answer) = hostile::call(&mut self.random, &mut session, &victim).await;
        self.steps.push(what.clone());
        self.counts.hostile += 1;
        assert!(
            (400..500).contains(&answer.code),
            "{what} got {answer:?} after {:#?}",
            self.steps
        );
        assert!(
            self.canaries(&answer.text).is_empty(),
            "{what} leaked a canary: {answer:?} after {:#?}",
            self.steps
        );
    }

    /// Makes one call, and repeats it until the gate and the oracle agree. Fails if they still
    /// differ after [`IN_EFFECT`], or at once if the gate allows what the oracle forbids and no
    /// change of permissions is that recent.
    async fn call(&mut self) {
        let tenant = self.random.random_range(0..2);
        let number = self.number;
        let content = |kind, namespace: &str, name: &str, version| {
            canary(number, kind, namespace, name, version)
        };
        let call = Call::choose(&mut self.random, &self.namespaces, &self.node, content);
        self.steps.push(format!("tenant {tenant}: {call:?}"));
        let begun = Instant::now();
        let rights_were_settled = self.changed.elapsed() > IN_EFFECT;
        let mut session = self.tenants[tenant].gate.session(None);
        loop {
            let account = &self.tenants[tenant].account;
            let before = self.stored(&call).await;
            let expected = oracle::answer(self.world, account, &call).await;
            let answer = call.through(&mut session).await;
            let expected = match oracle::parts(self.world, account, &call, &self.namespaces).await {
                Some(parts) if !expected.is_ok() => parts,
                _ => expected,
            };
            let difference = match self.difference(&call, &expected, &answer) {
                None => self.wrong_effect(&call, before.as_deref(), &answer).await,
                some => some,
            };
            let Some(difference) = difference else {
                self.count(&answer, begun);
                return;
            };
            let permits_too_much = answer.is_ok() && expected.code == 403;
            let is_late = begun.elapsed() > IN_EFFECT || (permits_too_much && rights_were_settled);
            assert!(
                !is_late,
                "{difference}\nthe API server: {expected:?}\nthe gate: {answer:?}\nafter {:#?}",
                self.steps
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn count(&mut self, answer: &Answer, begun: Instant) {
        self.counts.calls += 1;
        match answer.code {
            200 => self.counts.allowed += 1,
            403 => self.counts.forbidden += 1,
            _ => self.counts.other += 1,
        }
        // The two responses take a few milliseconds, so a shorter time means that the first ones
        // agreed.
        let took = begun.elapsed();
        if took > Duration::from_millis(100) {
            self.counts.late += 1;
            self.counts.latest = self.counts.latest.max(took);
        }
    }

    /// Describes how the gate's answer differs from the oracle's; None if it does not.
    fn difference(&self, call: &Call, expected: &Answer, answer: &Answer) -> Option<String> {
        if expected.code != answer.code {
            return Some(format!("{} in place of {}", answer.code, expected.code));
        }
        let mut wanted = self.canaries(&expected.text);
        let received = self.canaries(&answer.text);
        if !answer.is_ok() {
            // An error may quote the request.
            wanted = call.content().map(str::to_owned).into_iter().collect();
        }
        if let Some(learnt) = received.difference(&wanted).next() {
            return Some(format!("the tenant received {learnt}"));
        }
        if self.has_foreign_canary(&answer.text) && !self.has_foreign_canary(&expected.text) {
            return Some("the tenant received an object of another lane".to_owned());
        }
        let is_read = matches!(call.act, Act::Get | Act::List);
        let missing = wanted
            .difference(&received)
            .next()
            .filter(|_| is_read && answer.is_ok());
        missing.map(|missing| format!("the tenant did not receive {missing}"))
    }

    /// Describes how the stored object differs from the one that the response to a write implies;
    /// None if it does not.
    async fn wrong_effect(
        &self,
        call: &Call,
        before: Option<&str>,
        answer: &Answer,
    ) -> Option<String> {
        if !call.is_write() {
            return None;
        }
        let after = self.stored(call).await;
        let wanted = match &call.act {
            _ if !answer.is_ok() => before,
            Act::Delete => None,
            _ => call.content(),
        };
        (after.as_deref() != wanted).then(|| format!("{after:?} is stored in place of {wanted:?}"))
    }

    /// Returns the stored content of the object that a call would write; None for reads and absent
    /// objects.
    async fn stored(&self, call: &Call) -> Option<String> {
        if !call.is_write() {
            return None;
        }
        let location = call.namespace.as_deref()?;
        let path = format!(
            "/api/v1/namespaces/{location}/{}/{}",
            call.kind.plural(),
            call.name
        );
        let object = self.world.send("GET", &path, None).await.ok()?;
        Some(
            object["data"]["canary"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// Reports whether a text has a canary of another lane.
    fn has_foreign_canary(&self, text: &str) -> bool {
        let own = format!("canary{:03}", self.number);
        text.match_indices("canary0")
            .any(|(at, _)| !text[at..].starts_with(&own))
    }

    /// Returns the canaries of this lane in a text.
    fn canaries(&self, text: &str) -> BTreeSet<String> {
        let prefix = format!("canary{:03}", self.number);
        let word = |at: usize| {
            text[at..]
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect()
        };
        text.match_indices(&prefix)
            .map(|(at, _)| word(at))
            .collect()
    }
}

/// Returns an object's content: a text that occurs nowhere else and is valid base64, so that a
/// Secret can hold it.
fn canary(lane: u64, kind: Kind, namespace: &str, name: &str, version: u32) -> String {
    let namespace: String = namespace
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut text = format!("canary{lane:03}{}{namespace}{name}{version}", kind.plural());
    while !text.len().is_multiple_of(4) {
        text.push('x');
    }
    text
}
