//! The features of the cluster: which levels the broker knows, and which one is in force.

use super::profile::Profile;

/// One feature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// The lowest level that the broker knows.
    pub min: i16,
    /// The highest level that the broker knows.
    pub max: i16,
    /// The level in force.
    pub level: i16,
}

/// All features of the cluster, in order of name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Features(Vec<Feature>);

const SHARE_VERSION: &str = "share.version";
const TRANSACTION_VERSION: &str = "transaction.version";

impl Features {
    /// Returns the features of `profile`, each at the level of a new cluster.
    pub fn new(profile: Profile) -> Self {
        let share_version_max = match profile {
            Profile::Latest => 3,
            Profile::Kafka44 => 2,
        };
        let newest = |name, min, max| Feature { name, min, max, level: max };
        Self(vec![
            newest("eligible.leader.replicas.version", 0, 1),
            newest("group.version", 0, 1),
            newest("kraft.version", 0, 1),
            newest("metadata.version", 7, 33),
            newest(SHARE_VERSION, 0, share_version_max),
            newest("streams.version", 0, 1),
            newest(TRANSACTION_VERSION, 0, 2),
        ])
    }

    /// Sets the level in force of the feature `name`.
    ///
    /// # Errors
    ///
    /// Says what is wrong when there is no such feature or level.
    pub fn set(&mut self, name: &str, level: i16) -> Result<(), String> {
        let Some(feature) = self.0.iter_mut().find(|feature| feature.name == name) else {
            return Err(format!("no feature is called {name}"));
        };
        if !(feature.min..=feature.max).contains(&level) {
            return Err(format!("{name} has the levels {} to {}, not {level}", feature.min, feature.max));
        }
        feature.level = level;
        Ok(())
    }

    /// Returns all features, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Feature> {
        self.0.iter()
    }

    /// Returns the level in force of the feature `name`; 0 when there is none.
    pub fn level(&self, name: &str) -> i16 {
        self.0.iter().find(|feature| feature.name == name).map_or(0, |feature| feature.level)
    }

    /// Returns the level of `share.version`: 1 share groups, 2 dead-letter queues, 3 transactional
    /// acknowledgements.
    pub fn share_version(&self) -> i16 {
        self.level(SHARE_VERSION)
    }

    /// Returns the level of `transaction.version`: 2 raises the producer's epoch with each transaction.
    pub fn transaction_version(&self) -> i16 {
        self.level(TRANSACTION_VERSION)
    }

    /// Returns the level of `group.version`: 1 is the consumer protocol.
    pub fn group_version(&self) -> i16 {
        self.level("group.version")
    }
}
