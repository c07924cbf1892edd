//! A simulated Kubernetes cluster for a cloud: another cloud in this process, with roles and bindings. The cloud under test uses it over
//! TLS, with a service account that may do exactly what the rules of cloudsim's roles allow.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use cloudsim::{Cloud, ClusterOptions, Options, RequiredRules, Right};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{TcpRelay, calls::Calls};

/// The namespace of KubeEdge's objects and of the service account.
const NAMESPACE: &str = "kubeedge";
/// The name of the service account and its roles.
const NAME: &str = "cloudsim";
/// The controllers of a cluster, without those that KubeEdge brings.
const CONTROLLERS: &str =
    "*,-serviceaccountaccess,-csrapproving,-taskmanager,-nodegroup,-edgeapplication";

/// A cluster.
pub struct Cluster {
    cloud: Cloud,
    kubeconfig: Value,
    link: TcpRelay,
    calls: Calls,
    allowed: BTreeSet<Right>,
}

impl Drop for Cluster {
    /// Asserts that no cloud has made a call that the rules do not allow.
    fn drop(&mut self) {
        let calls = self.calls.all_calls();
        let beyond: Vec<_> = calls.iter().filter(|call| !self.allows(call)).collect();
        assert!(
            std::thread::panicking() || beyond.is_empty(),
            "calls that no rule is for: {beyond:#?}"
        );
    }
}

impl Cluster {
    /// Starts a cluster in memory. `lease_grace` is how old a node's Lease may get before the node is `NotReady`.
    pub async fn start(lease_grace: Duration) -> Self {
        let controllers = CONTROLLERS.parse().expect("controllers");
        let options = Options {
            rbac: true,
            lease_grace,
            controllers,
            ..Options::default().any_ports()
        };
        let cloud = Cloud::start(options).await.expect("the cluster starts");
        let client = cloud.client();
        let rules = RequiredRules::of_this_version().expect("rules");
        let everywhere = rules.everywhere(true, true);
        grant(&client, everywhere, &rules).await;
        let link = TcpRelay::to(cloud.addresses().api.expect("an API")).await;
        let kubeconfig = kubeconfig(&cloud, link.address(), &token(&client).await);
        Self {
            cloud,
            kubeconfig,
            link,
            calls: Calls::default(),
            allowed: rules.rights(true, true),
        }
    }

    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.cloud.client()
    }

    /// Returns the options with which a cloud for this cluster is started.
    pub async fn options(&self, replica: &str) -> ClusterOptions {
        ClusterOptions {
            health_port: Some(0),
            page_port: Some(0),
            observer: Some(self.calls.observer()),
            ..ClusterOptions::new(self.config().await, replica)
        }
    }

    /// Returns the link between the API server and the clouds.
    pub fn link(&self) -> &TcpRelay {
        &self.link
    }

    /// Returns the calls that clouds have made.
    pub fn calls(&self) -> BTreeSet<Right> {
        self.calls.all_calls()
    }

    /// Reports whether a rule allows the call. Every user may ask for his own rights.
    fn allows(&self, call: &Right) -> bool {
        let everywhere = Right {
            namespace: String::new(),
            ..call.clone()
        };
        call.resource == "selfsubjectaccessreviews"
            || self.allowed.contains(call)
            || self.allowed.contains(&everywhere)
    }

    /// Returns a kubeconfig of the service account, in JSON.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.to_string()
    }

    /// Returns the client configuration of the service account.
    pub async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("a kubeconfig")
    }

    /// Takes this right from the service account.
    pub async fn revoke(&self, resource: &str, verb: &str) {
        let roles = Api::<ClusterRole>::all(self.client());
        let mut role = roles.get(NAME).await.expect("a role");
        for rule in role.rules.iter_mut().flatten() {
            if rule.resources.iter().flatten().any(|one| one == resource) {
                rule.verbs.retain(|one| one != verb);
            }
        }
        // A rule without verbs is invalid.
        role.rules
            .iter_mut()
            .for_each(|rules| rules.retain(|rule| !rule.verbs.is_empty()));
        roles
            .replace(NAME, &PostParams::default(), &role)
            .await
            .expect("the role is written");
    }
}

/// Creates the service account with its roles.
async fn grant(client: &Client, everywhere: Vec<PolicyRule>, rules: &RequiredRules) {
    let account = ServiceAccount {
        metadata: metadata(Some(NAMESPACE)),
        ..ServiceAccount::default()
    };
    for namespace in rules.namespaces.keys() {
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.clone());
        match Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made.expect("a namespace is made")),
        }
    }
    create(Api::namespaced(client.clone(), NAMESPACE), &account).await;
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: NAME.to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        ..Subject::default()
    };
    let of = |kind: &str| RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: NAME.to_owned(),
    };
    let role = ClusterRole {
        metadata: metadata(None),
        rules: Some(everywhere),
        ..ClusterRole::default()
    };
    create(Api::all(client.clone()), &role).await;
    let subjects = Some(vec![subject]);
    let binding = ClusterRoleBinding {
        metadata: metadata(None),
        role_ref: of("ClusterRole"),
        subjects: subjects.clone(),
    };
    create(Api::all(client.clone()), &binding).await;
    for (namespace, rules) in &rules.namespaces {
        let role = Role {
            metadata: metadata(Some(namespace)),
            rules: Some(rules.clone()),
        };
        create(Api::namespaced(client.clone(), namespace), &role).await;
        let metadata = metadata(Some(namespace));
        let binding = RoleBinding {
            metadata,
            role_ref: of("Role"),
            subjects: subjects.clone(),
        };
        create(Api::namespaced(client.clone(), namespace), &binding).await;
    }
}

fn metadata(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}

async fn create<K>(api: Api<K>, object: &K)
where
    K: kube::Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), object)
        .await
        .expect("an object is made");
}

/// Returns a token of the service account.
async fn token(client: &Client) -> String {
    let spec = TokenRequestSpec {
        expiration_seconds: Some(24 * 60 * 60),
        ..TokenRequestSpec::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
    let request = TokenRequest {
        spec,
        ..TokenRequest::default()
    };
    let made: TokenRequest = accounts
        .create_subresource("token", NAME, &PostParams::default(), &request)
        .await
        .expect("a token is given");
    made.status.expect("a token").token
}

/// Returns the cluster's own kubeconfig with another address and another user.
fn kubeconfig(cloud: &Cloud, address: SocketAddr, token: &str) -> Value {
    let read = Kubeconfig::from_yaml(cloud.kubeconfig()).expect("a kubeconfig");
    let mut kubeconfig = serde_json::to_value(read).expect("a kubeconfig");
    kubeconfig["clusters"][0]["cluster"]["server"] = format!("https://{address}").into();
    let user = kubeconfig["users"][0]["name"].clone();
    kubeconfig["users"] = json!([{"name": user, "user": {"token": token}}]);
    kubeconfig
}
