//! The functions of `authorizer`, which check access against RBAC.

use std::sync::Arc;

use super::context::{Context, no_overload};
use crate::cel::{
    authorizer::{AuthorizationAttributes, Authorize, Check, Stage},
    error::{EvalError, Evaluated},
    value::Val,
};
use kubeapi::object::names::{dns_label, dns_subdomain};

/// The cost of one access check.
const COST: u64 = 350_000;

/// Calls a function of a [`Check`].
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    let (Val::Check(check), rest) = args.split_first()? else {
        return None;
    };
    let texts: Option<Vec<&str>> = rest
        .iter()
        .map(|arg| {
            if let Val::String(text) = arg {
                Some(&**text)
            } else {
                None
            }
        })
        .collect();
    let Some(texts) = texts else {
        return Some(no_overload());
    };
    Some(match &**check {
        Check::Asking(who, stage, question) => ask(name, who, *stage, question, &texts, context),
        Check::Answered(answer) => match (name, texts.as_slice()) {
            ("allowed", []) => Ok(Val::Bool(matches!(answer, Ok(Some(_))))),
            ("reason", []) => Ok(Val::text(
                answer
                    .as_ref()
                    .ok()
                    .and_then(Clone::clone)
                    .unwrap_or_default(),
            )),
            ("errored", []) => Ok(Val::Bool(answer.is_err())),
            ("error", []) => Ok(Val::text(
                answer.as_ref().err().cloned().unwrap_or_default(),
            )),
            _ => no_overload(),
        },
    })
}

fn ask<'a>(
    name: &str,
    who: &Arc<dyn Authorize>,
    stage: Stage,
    question: &AuthorizationAttributes,
    texts: &[&str],
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    let mut question = question.clone();
    let stage = match (stage, name, texts) {
        (Stage::Authorizer, "path", [path]) if path.trim().is_empty() => {
            return EvalError::fail("path must not be empty");
        }
        (Stage::Authorizer, "path", [path]) => {
            question.path = Some((*path).to_owned());
            Stage::Path
        }
        (Stage::Authorizer, "group", [group]) => {
            question.group = (*group).to_owned();
            Stage::Group
        }
        (Stage::Authorizer, "serviceAccount", [_, name]) if !dns_subdomain(name).is_empty() => {
            return EvalError::fail("Invalid service account name");
        }
        (Stage::Authorizer, "serviceAccount", [namespace, _])
            if !dns_label(namespace).is_empty() =>
        {
            return EvalError::fail("Invalid service account namespace");
        }
        (Stage::Authorizer, "serviceAccount", [namespace, name]) => {
            question.account = Some(((*namespace).to_owned(), (*name).to_owned()));
            Stage::Authorizer
        }
        (Stage::Group, "resource", [resource]) if resource.trim().is_empty() => {
            return EvalError::fail("resource must not be empty");
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
        // RBAC decides the same whatever objects are selected, as in kube-apiserver
        (Stage::Resource, "fieldSelector" | "labelSelector", [_]) => Stage::Resource,
        (Stage::Path | Stage::Resource, "check", [verb]) => {
            context.budget.spend(COST)?;
            question.verb = (*verb).to_owned();
            return Ok(Val::Check(Arc::new(Check::Answered(
                who.authorize(&question),
            ))));
        }
        _ => return no_overload(),
    };
    Ok(Val::Check(Arc::new(Check::Asking(
        Arc::clone(who),
        stage,
        Box::new(question),
    ))))
}
