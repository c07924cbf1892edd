//! Files of a crate do not import each other in a circle, and neither do its folders.
//!
//! An import is a path that begins with `crate`, `self` or `super`, in a `use` or elsewhere in the code, followed through re-exports.
//! What a module and the modules inside it take from each other is not counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use syn::{
    Attribute, Item, ItemMod, ItemUse, UseTree, Visibility,
    visit::{self, Visit},
};

use super::{CRATES, is_test, none, root, sources};

/// The path of a module from its crate's root.
type Module = Vec<String>;

/// The modules that each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The paths that a file names.
#[derive(Default)]
struct Paths {
    /// Paths, as they are written.
    used: Vec<Vec<String>>,
    /// Re-exported paths, by the name that they get.
    exported: Vec<(String, Vec<String>)>,
}

impl<'a> Visit<'a> for Paths {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_cfg_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let mut leaves = Vec::new();
        collect(&item.tree, &[], &mut leaves);
        if !matches!(item.vis, Visibility::Inherited) {
            self.exported.extend(leaves.iter().cloned());
        }
        self.used.extend(leaves.into_iter().map(|(_, path)| path));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.used.push(
            path.segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect(),
        );
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        // `super` would mean another module in one that is written inside the file
        if item.content.is_none() {
            visit::visit_item_mod(self, item);
        }
    }
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|path| path.is_ident("test"))
}

/// Collects the paths of a `use` tree, each with the name that it gets.
fn collect(tree: &UseTree, prefix: &[String], into: &mut Vec<(String, Vec<String>)>) {
    let with = |name: String| [prefix, &[name]].concat();
    match tree {
        UseTree::Path(tree) => collect(&tree.tree, &with(tree.ident.to_string()), into),
        UseTree::Name(tree) if tree.ident == "self" => {
            into.push((prefix.last().cloned().unwrap_or_default(), prefix.to_vec()));
        }
        UseTree::Name(tree) => into.push((tree.ident.to_string(), with(tree.ident.to_string()))),
        UseTree::Rename(tree) => into.push((tree.rename.to_string(), with(tree.ident.to_string()))),
        UseTree::Glob(_) => into.push(("*".to_owned(), prefix.to_vec())),
        UseTree::Group(tree) => tree
            .items
            .iter()
            .for_each(|tree| collect(tree, prefix, into)),
    }
}

/// The modules of a crate, with the paths that each names.
struct Modules(BTreeMap<Module, Paths>);

impl Modules {
    fn of(name: &str, sources: &[(PathBuf, String)]) -> Self {
        let source = root().join(name).join("src");
        let own = sources
            .iter()
            .filter(|(path, _)| path.starts_with(&source) && !is_test(path));
        let modules = own.map(|(path, text)| {
            let relative = path.strip_prefix(&source).unwrap().with_extension("");
            let mut module: Module = relative
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
                module.pop();
            }
            let mut paths = Paths::default();
            paths.visit_file(&syn::parse_file(text).unwrap());
            (module, paths)
        });
        Self(modules.collect())
    }

    /// Returns the path from the crate's root; `None` if it is another crate's, or a name in scope.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut base = module.to_vec();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (base, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.0.get(&child)?;
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// Returns the module that has what is at this path, following re-exports.
    fn owner(&self, path: &[String], depth: usize) -> Option<Module> {
        let length = (0..=path.len())
            .rev()
            .find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        if let Some(name) = rest.first().filter(|_| depth < 5) {
            let exported = self.0[module]
                .exported
                .iter()
                .find(|(export, _)| export == name);
            let target = exported.and_then(|(_, target)| self.absolute(module, target));
            if let Some(target) = target.filter(|target| target != path) {
                return self.owner(&[target.as_slice(), &rest[1..]].concat(), depth + 1);
            }
        }
        Some(module.to_vec())
    }

    /// The modules that each module imports.
    fn imports(&self) -> Imports {
        let is_inside = |inner: &[String], outer: &[String]| inner.starts_with(outer);
        let imports = self.0.iter().map(|(module, paths)| {
            let absolute = paths
                .used
                .iter()
                .filter_map(|path| self.absolute(module, path));
            let owners = absolute.filter_map(|path| self.owner(&path, 0));
            (
                module.clone(),
                owners
                    .filter(|owner| !is_inside(owner, module) && !is_inside(module, owner))
                    .collect(),
            )
        });
        imports.collect()
    }
}

/// Returns the folder of a module, to which a file of the same name belongs. Each controller of `cloudsim` is a folder of its own.
fn folder(module: &[String]) -> &[String] {
    let depth = if module.first().is_some_and(|first| first == "controllers") {
        2
    } else {
        1
    };
    &module[..depth.min(module.len())]
}

/// Returns the imports between folders.
fn of_folders(imports: &Imports) -> Imports {
    let mut folders = Imports::new();
    for (module, imported) in imports {
        let own = folder(module);
        let others = imported
            .iter()
            .map(|other| folder(other))
            .filter(|other| *other != own && !other.is_empty());
        folders
            .entry(own.to_vec())
            .or_default()
            .extend(others.map(<[_]>::to_vec));
    }
    folders
}

/// Returns a circle among the imports, if there is one: the modules on it, the first of them again at its end.
fn circle(imports: &Imports) -> Option<Vec<Module>> {
    let mut done = BTreeSet::new();
    imports
        .keys()
        .find_map(|start| visit_imports(start, imports, &mut Vec::new(), &mut done))
}

fn visit_imports(
    module: &Module,
    imports: &Imports,
    way: &mut Vec<Module>,
    done: &mut BTreeSet<Module>,
) -> Option<Vec<Module>> {
    if let Some(begin) = way.iter().position(|before| before == module) {
        return Some([&way[begin..], std::slice::from_ref(module)].concat());
    }
    if !done.insert(module.clone()) {
        return None;
    }
    way.push(module.clone());
    let found = imports
        .get(module)
        .into_iter()
        .flatten()
        .find_map(|next| visit_imports(next, imports, way, done));
    way.pop();
    found
}

/// Returns a circle of each crate that has one.
fn circles(names: &[&str], between: impl Fn(Imports) -> Imports) -> Vec<String> {
    let sources = sources();
    let found = names.iter().filter_map(|name| {
        let circle = circle(&between(Modules::of(name, &sources).imports()))?;
        Some(format!(
            "{name}: {}",
            circle
                .iter()
                .map(|module| module.join("::"))
                .collect::<Vec<_>>()
                .join(" -> ")
        ))
    });
    found.collect()
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let found = circles(&CRATES, |imports| imports);
    none(
        "files that import each other in a circle: move what they share to a file below both",
        found,
    );
}

#[test]
fn folders_do_not_import_each_other_in_a_circle() {
    // `Api` of kubeapi and `Server` of apiserver hold the state of each of their parts, and every part is given them
    let layered: Vec<_> = CRATES
        .into_iter()
        .filter(|name| !["kubeapi", "apiserver"].contains(name))
        .collect();
    let found = circles(&layered, |imports| of_folders(&imports));
    none(
        "folders that import each other in a circle: move what they share to a folder below both",
        found,
    );
}

#[test]
fn a_circle_is_found() {
    let parsed = |text: &str| {
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(text).unwrap());
        paths
    };
    let name = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let modules = |b: &str| {
        let a = "use crate::b::{self, Thing as Other}; #[cfg(test)] mod tests { use crate::c; }";
        Modules(BTreeMap::from([
            (Vec::new(), parsed("mod a; mod b; mod c;")),
            (name("a"), parsed(a)),
            (name("a::inner"), parsed("use super::Own;")),
            (name("b"), parsed("pub use self::thing::Thing; mod thing;")),
            (name("b::thing"), parsed(b)),
            (name("c"), parsed("use super::a;")),
        ]))
    };
    assert_eq!(circle(&modules("pub struct Thing;").imports()), None);
    let found = circle(&modules("fn call() { crate::a::inner::call() }").imports());
    assert_eq!(found, None, "the module inside imports nothing");
    let found = circle(&modules("fn call() { crate::a::call() }").imports()).unwrap();
    assert_eq!(found, [name("a"), name("b::thing"), name("a")]);
}

#[test]
fn a_circle_of_folders_is_found() {
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let imports = |pairs: &[(&str, &str)]| {
        let imports = pairs
            .iter()
            .map(|(from, to)| (module(from), BTreeSet::from([module(to)])));
        of_folders(&imports.collect())
    };
    assert_eq!(
        circle(&imports(&[("a::one", "b::one"), ("a::two", "a::one")])),
        None
    );
    assert_eq!(
        circle(&imports(&[("controllers::a::one", "controllers::b")])),
        None
    );
    let found = circle(&imports(&[("a::one", "b::one"), ("b::two", "a::two")])).unwrap();
    assert_eq!(found, [module("a"), module("b"), module("a")]);
    assert!(
        circle(&imports(&[
            ("controllers::a::one", "controllers::b"),
            ("controllers::b", "controllers::a")
        ]))
        .is_some()
    );
}
