//! The kinds that an API serves.

use std::sync::{Arc, LazyLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub mod builtin;
pub mod computed;
mod crd;
mod declare;
pub mod defined;
pub mod kind;
mod kubernetes;
mod type_name;
mod version_priority;

pub use builtin::Builtin;
pub use computed::ComputedKind;
pub use defined::{Conversion, Convert, Defined, PrinterColumn, ScalePaths};
pub use kind::Kind;
pub use kind::{KindSchema, SchemaSource};
pub use type_name::TypeName;
pub use version_priority::version_priority;

/// The conversions of kinds from definitions, by group and plural.
#[derive(Debug, Default)]
struct Conversions(Vec<(String, String, Convert)>);

impl Conversions {
    fn find(&self, definition: &CustomResourceDefinition) -> Conversion {
        let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
        let mut all = self.0.iter();
        let own = all.find(|(own, name, _)| own == group && name == plural);
        let declared = definition.spec.conversion.as_ref();
        match own {
            Some((_, _, convert)) => Conversion::Function(*convert),
            None if declared.is_some_and(|declared| declared.strategy == "Webhook") => {
                Conversion::Webhook
            }
            None => Conversion::None,
        }
    }
}

/// The served kinds; cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    kinds: Arc<Vec<Arc<Kind>>>,
    /// The definitions with which the API starts.
    given: Arc<Vec<CustomResourceDefinition>>,
    conversions: Arc<Conversions>,
}

impl Registry {
    /// Returns the built-in kinds that this API serves. All APIs of a process share them.
    pub fn builtin() -> Self {
        static BUILTIN: LazyLock<Registry> = LazyLock::new(|| Registry {
            kinds: Arc::new(kubernetes::kinds().map(Arc::new).collect()),
            given: Arc::default(),
            conversions: Arc::default(),
        });
        BUILTIN.clone()
    }

    /// Sets how objects of a kind from a definition are converted between versions; must be called before the definition is added.
    /// Without it the definition says so (`spec.conversion`).
    #[must_use]
    pub fn with_conversion(self, group: &str, plural: &str, convert: Convert) -> Self {
        let own = [(group.to_owned(), plural.to_owned(), convert)];
        let conversions = self.conversions.0.iter().cloned().chain(own).collect();
        Self {
            conversions: Arc::new(Conversions(conversions)),
            ..self
        }
    }

    /// Adds, for each served version, the kinds of the definitions. A whole API server also stores the definitions when it
    /// is first called, replacing those of the same names.
    #[must_use]
    pub fn with_crds(self, definitions: &[CustomResourceDefinition]) -> Self {
        let defined = definitions
            .iter()
            .flat_map(|definition| crd::kinds(definition, self.conversions.find(definition), true))
            .map(Arc::new);
        let kinds = self.kinds.iter().cloned().chain(defined).collect();
        let given = self.given.iter().chain(definitions).cloned().collect();
        Self {
            kinds: Arc::new(kinds),
            given: Arc::new(given),
            conversions: Arc::clone(&self.conversions),
        }
    }

    /// Adds kinds whose objects are computed.
    pub fn with_computed(self, kinds: Vec<ComputedKind>) -> Self {
        let computed = kinds.into_iter().map(computed::kind).map(Arc::new);
        // They precede the kinds from definitions.
        let (own, defined): (Vec<_>, Vec<_>) = self
            .kinds
            .iter()
            .cloned()
            .partition(|kind| kind.builtin.is_some());
        let kinds = own.into_iter().chain(computed).chain(defined).collect();
        Self {
            kinds: Arc::new(kinds),
            ..self
        }
    }

    /// Returns the definitions with which the API starts.
    pub fn initial_definitions(&self) -> &[CustomResourceDefinition] {
        &self.given
    }

    /// Returns the built-in kinds and those of `definitions`. A kind whose definition is unchanged stays the same; the others are retired.
    /// With `fills_on_read`, objects are returned with defaults that their schema got after they were stored.
    pub fn redefined(&self, definitions: &[CustomResourceDefinition], fills_on_read: bool) -> Self {
        let mut kinds: Vec<_> = self
            .kinds
            .iter()
            .filter(|kind| kind.builtin.is_some())
            .cloned()
            .collect();
        for definition in definitions {
            for new in crd::kinds(definition, self.conversions.find(definition), fills_on_read) {
                // A built-in kind takes precedence.
                if kinds.iter().any(|kind| kind.same_place(&new)) {
                    continue;
                }
                let old = self.kinds.iter().find(|kind| kind.same_place(&new));
                let holds = |kind: &&Arc<Kind>| {
                    kind.defined
                        .as_ref()
                        .is_some_and(|defined| defined.still_holds(definition))
                };
                kinds.push(old.filter(holds).cloned().unwrap_or_else(|| Arc::new(new)));
            }
        }
        for old in self
            .kinds
            .iter()
            .filter(|old| !kinds.iter().any(|kind| Arc::ptr_eq(kind, old)))
        {
            if let Some(defined) = &old.defined {
                defined.retired.cancel();
            }
        }
        let (given, conversions) = (Arc::clone(&self.given), Arc::clone(&self.conversions));
        Self {
            kinds: Arc::new(kinds),
            given,
            conversions,
        }
    }

    /// Returns all kinds, the built-in ones first.
    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// Returns the kind at `/apis/<group>/<version>/<plural>`.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds
            .iter()
            .find(|kind| kind.plural == plural && kind.version == version && kind.group == group)
    }

    /// Returns the kind with these built-in rules.
    pub fn of(&self, builtin: Builtin) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.is(builtin))
    }

    /// Returns the kinds of one group in one version.
    pub fn group_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.kinds
            .iter()
            .filter(move |kind| kind.group == group && kind.version == version)
    }

    /// Returns every (group, version) once, in the order of appearance.
    pub fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all = Vec::new();
        for kind in self.kinds.iter() {
            let pair = (kind.group.as_str(), kind.version.as_str());
            if !all.contains(&pair) {
                all.push(pair);
            }
        }
        all
    }
}
