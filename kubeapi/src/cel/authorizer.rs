//! `authorizer`: may somebody do something? The answer is that of the roles in force.

use std::{fmt, sync::Arc};

use super::{
    budget::EvalError,
    eval::Evaluated,
    library::{Context, no_overload},
    value::Val,
};

/// Answers whether access is granted, and why.
pub(crate) trait Authorize: Send + Sync {
    /// The reason why it is allowed; `None` if it is not; the outer error: nobody knows.
    fn authorize(&self, question: &Question) -> Result<Option<String>, String>;
}

/// What is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    /// The name of a service account that asks in place of the caller: its namespace and name.
    pub(crate) account: Option<(String, String)>,
    pub(crate) path: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) verb: String,
}

impl Question {
    /// Of all its texts, in bytes.
    fn length(&self) -> usize {
        let account = self.account.as_ref().map_or(0, |(namespace, name)| namespace.len() + name.len());
        let texts = [&self.group, &self.resource, &self.subresource, &self.namespace, &self.name, &self.verb];
        account
            + self.path.as_ref().map_or(0, String::len)
            + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}

/// How far a question has been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
}

/// A question about access, or the answer to one.
#[derive(Clone)]
pub(crate) enum Check {
    Asking(Arc<dyn Authorize>, Stage, Box<Question>),
    Answered(Result<Option<String>, String>),
}

impl Check {
    pub(crate) fn authorizer(who: Arc<dyn Authorize>) -> Self {
        Self::Asking(who, Stage::Authorizer, Box::default())
    }

    /// About the resource of a request.
    pub(crate) fn resource(who: Arc<dyn Authorize>, question: Question) -> Self {
        Self::Asking(who, Stage::Resource, Box::new(question))
    }

    /// How many bytes of text it has, which are copied with every step of it.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Asking(_, _, question) => question.length(),
            Self::Answered(Ok(reason)) => reason.as_ref().map_or(0, String::len),
            Self::Answered(Err(why)) => why.len(),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Asking(_, Stage::Authorizer, _) => "kubernetes.authorization.Authorizer",
            Self::Asking(_, Stage::Path, _) => "kubernetes.authorization.PathCheck",
            Self::Asking(_, Stage::Group, _) => "kubernetes.authorization.GroupCheck",
            Self::Asking(_, Stage::Resource, _) => "kubernetes.authorization.ResourceCheck",
            Self::Answered(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

/// What a look at the roles costs.
const COST: u64 = 350_000;

/// The functions of [`Check`]s.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], context: &mut Context<'_>) -> Option<Evaluated<'a>> {
    let (Val::Check(check), rest) = args.split_first()? else { return None };
    let texts: Option<Vec<&str>> =
        rest.iter().map(|arg| if let Val::String(text) = arg { Some(&**text) } else { None }).collect();
    let Some(texts) = texts else { return Some(no_overload()) };
    Some(match &**check {
        Check::Asking(who, stage, question) => ask(name, (who, *stage, question), &texts, context),
        Check::Answered(answer) => match (name, texts.as_slice()) {
            ("allowed", []) => Ok(Val::Bool(matches!(answer, Ok(Some(_))))),
            ("reason", []) => Ok(Val::text(answer.as_ref().ok().and_then(Clone::clone).unwrap_or_default())),
            ("errored", []) => Ok(Val::Bool(answer.is_err())),
            ("error", []) => Ok(Val::text(answer.as_ref().err().cloned().unwrap_or_default())),
            _ => no_overload(),
        },
    })
}

fn ask<'a>(
    name: &str,
    (who, stage, question): (&Arc<dyn Authorize>, Stage, &Question),
    texts: &[&str],
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    let mut question = question.clone();
    let stage = match (stage, name, texts) {
        (Stage::Authorizer, "path", ["", ..]) => return EvalError::failed("path must not be empty"),
        (Stage::Authorizer, "path", [path]) => {
            question.path = Some((*path).to_owned());
            Stage::Path
        }
        (Stage::Authorizer, "group", [group]) => {
            question.group = (*group).to_owned();
            Stage::Group
        }
        (Stage::Authorizer, "serviceAccount", [namespace, name]) => {
            question.account = Some(((*namespace).to_owned(), (*name).to_owned()));
            Stage::Authorizer
        }
        (Stage::Group, "resource", [resource]) => {
            question.resource = (*resource).to_owned();
            Stage::Resource
        }
        (Stage::Resource, "subresource", [subresource]) => {
            question.subresource = (*subresource).to_owned();
            Stage::Resource
        }
        (Stage::Resource, "namespace", [namespace]) => {
            question.namespace = (*namespace).to_owned();
            Stage::Resource
        }
        (Stage::Resource, "name", [name]) => {
            question.name = (*name).to_owned();
            Stage::Resource
        }
        (Stage::Path | Stage::Resource, "check", [verb]) => {
            context.budget.spend(COST)?;
            question.verb = (*verb).to_owned();
            return Ok(Val::Check(Arc::new(Check::Answered(who.authorize(&question)))));
        }
        _ => return no_overload(),
    };
    Ok(Val::Check(Arc::new(Check::Asking(Arc::clone(who), stage, Box::new(question)))))
}
