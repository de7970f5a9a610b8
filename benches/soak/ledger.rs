//! The record of a run: what was done to each Foo, and what was seen of its Deployment.

use std::collections::BTreeMap;

use operetta_testkit::AuditLog;
use tokio::sync::oneshot;

/// A Foo and its Deployment, which has the same name.
#[derive(Debug, Default)]
pub struct Life {
    /// The replicas that the Foo asks for.
    pub replicas: i32,
    /// The available replicas that this program has reported in the Deployment's status.
    pub available: i32,
    /// Whether the Foo exists with its Deployment. If not, it is not changed yet.
    pub is_deployed: bool,
    /// Whether this program has deleted the Foo.
    pub is_deleted: bool,
    /// The uid of the Deployment that the watch has shown last; 0 before the first.
    deployment: u128,
    /// The number of different Deployments that the watch has shown.
    deployments: u32,
    /// The number of successful creations of the Deployment in the audit log.
    creations: u32,
    /// Told when the watch shows the first Deployment.
    waiting: Option<oneshot::Sender<()>>,
}

/// All Foos by number. The name of number 7 is `foo-7`; no name is used twice.
#[derive(Debug, Default)]
pub struct Ledger {
    lives: Vec<Life>,
    /// The Foos that have had a Deployment.
    deployed: usize,
    /// Attempts to create a Deployment that exists already.
    conflicts: usize,
    /// The number of requests to the API server, without watches that have not ended.
    requests: usize,
}

impl Ledger {
    /// Adds a Foo and returns its number.
    pub fn add(&mut self) -> usize {
        let number = self.lives.len();
        self.lives.push(Life {
            replicas: (number % 3) as i32 + 1,
            ..Life::default()
        });
        number
    }

    /// Returns the number of Foos so far.
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Returns the number of Foos that have had a Deployment.
    pub fn deployed(&self) -> usize {
        self.deployed
    }

    /// Returns a Foo.
    pub fn life(&mut self, number: usize) -> &mut Life {
        &mut self.lives[number]
    }

    /// Returns what is told when the Foo has its first Deployment; None if it has had one.
    pub fn until_deployed(&mut self, number: usize) -> Option<oneshot::Receiver<()>> {
        let life = &mut self.lives[number];
        if life.deployments > 0 {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        life.waiting = Some(sender);
        Some(receiver)
    }

    /// Records a Deployment that the watch has shown.
    pub fn saw_deployment(&mut self, name: &str, uid: &str) {
        let Some(life) = number_of(name).and_then(|number| self.lives.get_mut(number)) else {
            return;
        };
        let Ok(uid) = u128::from_str_radix(&uid.replace('-', ""), 16) else {
            return;
        };
        if life.deployment != uid {
            life.deployment = uid;
            life.deployments += 1;
            self.deployed += usize::from(life.deployments == 1);
        }
        if let Some(waiting) = life.waiting.take() {
            let _gave_up = waiting.send(());
        }
    }

    /// Records a part of the audit log.
    pub fn saw_requests(&mut self, audit: &AuditLog) {
        self.requests += audit.done_by(|_| true).count();
        for event in audit.done("create", "deployments") {
            let life =
                number_of(&event.object_ref.name).and_then(|number| self.lives.get_mut(number));
            match (event.response_status.code, life) {
                (201, Some(life)) => life.creations += 1,
                (409, _) => self.conflicts += 1,
                _ => {}
            }
        }
    }

    /// Returns the number of attempts to create a Deployment that existed already.
    pub fn conflicts(&self) -> usize {
        self.conflicts
    }

    /// Returns the number of completed requests of everybody.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Returns the Foos that should exist, by name.
    pub fn expected(&self) -> BTreeMap<String, &Life> {
        let lives = self
            .lives
            .iter()
            .enumerate()
            .filter(|(_, life)| !life.is_deleted);
        lives
            .map(|(number, life)| (name_of(number), life))
            .collect()
    }

    /// Returns the Foos that have never had a Deployment.
    pub fn without_deployment(&self) -> Vec<String> {
        self.faults(|life| (life.deployments == 0).then(|| "never had a Deployment".to_owned()))
    }

    /// Returns the Foos that have had more than one Deployment.
    pub fn with_several(&self) -> Vec<String> {
        self.faults(|life| {
            let is_single = life.deployments <= 1 && life.creations <= 1;
            let (seen, created) = (life.deployments, life.creations);
            (!is_single)
                .then(|| format!("{seen} Deployments seen, {created} creations in the audit log"))
        })
    }

    /// Returns the Foos whose Deployment's creation is not in the audit log: the API server was
    /// killed before it answered.
    pub fn unlogged(&self) -> Vec<String> {
        self.faults(|life| {
            (life.deployments > 0 && life.creations == 0)
                .then(|| "no creation in the audit log".to_owned())
        })
    }

    fn faults(&self, fault: impl Fn(&Life) -> Option<String>) -> Vec<String> {
        let faults = self
            .lives
            .iter()
            .enumerate()
            .filter_map(|(number, life)| Some((number, fault(life)?)));
        faults
            .map(|(number, fault)| format!("{}: {fault}", name_of(number)))
            .collect()
    }
}

/// Returns the name of a Foo and of its Deployment.
pub fn name_of(number: usize) -> String {
    format!("foo-{number}")
}

fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("foo-")?.parse().ok()
}
