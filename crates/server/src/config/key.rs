//! What is known of a property: its type, default and allowed values.

/// The type of a property's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean,
    /// A text.
    String,
    /// A 32-bit number.
    Int,
    /// A 16-bit number.
    Short,
    /// A 64-bit number.
    Long,
    /// A fraction.
    Double,
    /// Texts, separated by commas.
    List,
    /// The name of a Java class; kept and shown, never loaded.
    Class,
    /// A text that is never shown.
    Password,
}

impl ConfigType {
    /// Returns the number that stands for this type in a DescribeConfigs answer.
    pub const fn wire_id(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// Returns Kafka's name for this type in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }
}

/// Which values a property may have, beyond its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Any value of the type.
    Any,
    /// A number not below the bound.
    AtLeast(i64),
    /// A number within both bounds, which are included.
    Between(i64, i64),
    /// A number within both bounds, or the one that stands for "default".
    BetweenOr(i64, i64, i64),
    /// A fraction within both bounds, which are included.
    Fraction(f64, f64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// One of these texts, in upper or lower case.
    OneOfIgnoringCase(&'static [&'static str]),
    /// A text with at least one character.
    NonEmpty,
    /// A list in which no text is empty; repetitions are left out.
    NoEmptyItems,
    /// A list of these texts (of any, when there are none here); repetitions are left out.
    List {
        /// The texts allowed.
        allowed: &'static [&'static str],
        /// Whether the list may be empty.
        may_be_empty: bool,
    },
    /// `*`, or pairs of a partition and a broker.
    ThrottledReplicas,
    /// `latest`, `earliest` or `by_duration:` and an ISO-8601 duration.
    AutoOffsetReset,
}

/// Whether a property can be changed while the broker runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpdateMode {
    /// Only at a start.
    ReadOnly,
    /// For one broker at a time.
    PerBroker,
    /// For one broker, or for all at once.
    ClusterWide,
}

/// One property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigKey {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: ConfigType,
    /// Its value when nothing sets it; `None` when that is no value at all.
    pub default: Option<&'static str>,
    /// Which values it may have.
    pub rule: Rule,
    /// Whether it is left out of descriptions.
    pub internal: bool,
    /// Whether it can be changed while the broker runs.
    pub update: UpdateMode,
    /// For a topic or group property: the broker properties that supply its default, the first one set wins.
    pub synonyms: &'static [Synonym],
}

/// A broker property that supplies the default of a topic or group property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synonym {
    /// The name of the broker property.
    pub name: &'static str,
    /// What its number is multiplied by (hours to milliseconds).
    pub factor: i64,
}

impl ConfigKey {
    /// Returns whether its value is never shown.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.kind, ConfigType::Password)
    }

    pub(super) const fn new(name: &'static str, kind: ConfigType, default: Option<&'static str>) -> Self {
        Self {
            name,
            kind,
            default,
            rule: Rule::Any,
            internal: false,
            update: UpdateMode::ReadOnly,
            synonyms: &[],
        }
    }

    pub(super) const fn at_least(mut self, min: i64) -> Self {
        self.rule = Rule::AtLeast(min);
        self
    }

    pub(super) const fn between(mut self, min: i64, max: i64) -> Self {
        self.rule = Rule::Between(min, max);
        self
    }

    pub(super) const fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    pub(super) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    pub(super) const fn per_broker(mut self) -> Self {
        self.update = UpdateMode::PerBroker;
        self
    }

    pub(super) const fn dynamic(mut self) -> Self {
        self.update = UpdateMode::ClusterWide;
        self
    }

    pub(super) const fn from(mut self, synonyms: &'static [Synonym]) -> Self {
        self.synonyms = synonyms;
        self
    }
}

pub(super) const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

pub(super) const fn times(name: &'static str, factor: i64) -> Synonym {
    Synonym { name, factor }
}

macro_rules! of_type {
    ($($function:ident $kind:ident),* $(,)?) => {
        $(
            pub(super) const fn $function(name: &'static str, default: &'static str) -> ConfigKey {
                ConfigKey::new(name, ConfigType::$kind, Some(default))
            }
        )*
    };
}

of_type! {
    boolean Boolean,
    string String,
    int Int,
    short Short,
    long Long,
    double Double,
    list List,
    class Class,
}

pub(super) const fn unset(name: &'static str, kind: ConfigType) -> ConfigKey {
    ConfigKey::new(name, kind, None)
}
