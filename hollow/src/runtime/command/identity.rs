//! The user and groups of a container's commands.

use std::collections::BTreeSet;

use wire::cri::ContainerConfig;

/// The user and groups of a container's commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The numeric user id.
    pub(crate) user: i64,
    /// The numeric id of the primary group.
    pub(crate) group: i64,
    /// The numeric ids of the other groups.
    others: Vec<i64>,
}

impl Identity {
    /// Returns what the security context of a container says. The primary group is root's unless it says otherwise.
    pub(crate) fn of(config: &ContainerConfig) -> Self {
        let Some(security) = config
            .linux
            .as_ref()
            .and_then(|linux| linux.security_context.as_ref())
        else {
            return Self::default();
        };
        Self {
            user: security.run_as_user.map_or(0, |user| user.value),
            group: security.run_as_group.map_or(0, |group| group.value),
            others: security.supplemental_groups.clone(),
        }
    }

    /// Returns the user's name, which is its number if it is not root.
    pub(super) fn user_name(&self) -> String {
        name(self.user)
    }

    fn groups(&self) -> BTreeSet<i64> {
        self.others.iter().copied().chain([self.group]).collect()
    }

    /// Returns what `id` prints.
    ///
    /// # Errors
    /// An option is not known.
    pub(super) fn print(&self, arguments: &[String]) -> Result<String, String> {
        let flags: String = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix('-'))
            .collect();
        let is_named = flags.contains('n');
        let shown = |id: i64| if is_named { name(id) } else { id.to_string() };
        let all = |separator: &str, shown: &dyn Fn(i64) -> String| -> String {
            self.groups()
                .into_iter()
                .map(shown)
                .collect::<Vec<_>>()
                .join(separator)
        };
        let text = match flags.replace(['n', 'r'], "").as_str() {
            "u" => shown(self.user),
            "g" => shown(self.group),
            "G" => all(" ", &shown),
            "" => {
                let (user, group, groups) = (long(self.user), long(self.group), all(",", &long));
                format!("uid={user} gid={group} groups={groups}")
            }
            other => return Err(format!("unrecognized option '{other}'")),
        };
        Ok(text + "\n")
    }
}

fn name(id: i64) -> String {
    if id == 0 {
        "root".to_owned()
    } else {
        id.to_string()
    }
}

fn long(id: i64) -> String {
    if id == 0 {
        "0(root)".to_owned()
    } else {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use wire::cri::{Int64Value, LinuxContainerConfig, LinuxContainerSecurityContext};

    use super::*;

    #[test]
    fn id_prints_user_and_groups_of_the_security_context() {
        let value = |value: Option<i64>| value.map(|value| Int64Value { value });
        for (user, group, others, arguments, expected) in [
            (
                None,
                None,
                &[][..],
                "",
                "uid=0(root) gid=0(root) groups=0(root)",
            ),
            (
                Some(1000),
                None,
                &[],
                "",
                "uid=1000 gid=0(root) groups=0(root)",
            ),
            (
                Some(1000),
                Some(3000),
                &[2000, 4000],
                "",
                "uid=1000 gid=3000 groups=2000,3000,4000",
            ),
            (Some(1000), Some(3000), &[2000], "-G", "2000 3000"),
            (Some(1000), Some(3000), &[], "-g", "3000"),
            (Some(1000), None, &[], "-u", "1000"),
            (None, None, &[], "-un", "root"),
            (Some(7), None, &[], "-u -n", "7"),
        ] {
            let security_context = Some(LinuxContainerSecurityContext {
                run_as_user: value(user),
                run_as_group: value(group),
                supplemental_groups: others.to_vec(),
                ..Default::default()
            });
            let linux = Some(LinuxContainerConfig {
                security_context,
                ..Default::default()
            });
            let identity = Identity::of(&ContainerConfig {
                linux,
                ..Default::default()
            });
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(
                identity.print(&arguments),
                Ok(format!("{expected}\n")),
                "{arguments:?}"
            );
        }
        assert!(Identity::default().print(&["-x".to_owned()]).is_err());
    }
}
