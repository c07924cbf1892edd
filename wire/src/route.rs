//! The words of routes: sources, groups, operations and resource types. Unknown words are kept as `Other`.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// A word that is not in this list, unchanged. Empty if the field was absent.
            Other(String),
        }

        impl $name {
            /// Returns the word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }

            /// Reports whether the field is absent.
            pub fn is_empty(&self) -> bool {
                self.as_str().is_empty()
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($text => Self::$variant,)*
                    _ => Self::Other(text),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// The module that sent a message.
    Source {
        EdgeController = "edgecontroller",
        DeviceController = "devicecontroller",
        DynamicController = "dynamiccontroller",
        SyncController = "synccontroller",
        PolicyController = "policycontroller",
        TaskManager = "taskmanager",
        NodeUpgradeJobController = "nodeupgradejobcontroller",
        RouterEventBus = "router_eventbus",
        RouterServiceBus = "router_servicebus",
        CloudHub = "cloudhub",
        CloudStream = "cloudStream",
        Edged = "edged",
        MetaManager = "metamanager",
        Meta = "meta",
        Twin = "twin",
        Bus = "bus",
        ServiceBus = "servicebus",
        MetaServer = "metaserver",
        WebSocket = "websocket",
    }
}

words! {
    /// The modules that a message is for.
    Group {
        Resource = "resource",
        Meta = "meta",
        Twin = "twin",
        User = "user",
        Hub = "hub",
        TaskManager = "taskmanager",
        DynamicController = "dynamiccontroller",
        Func = "func",
    }
}

words! {
    /// The operation of a message.
    Operation {
        Insert = "insert",
        Update = "update",
        Delete = "delete",
        Query = "query",
        Patch = "patch",
        Upload = "upload",
        Response = "response",
        Error = "error",
        Get = "get",
        Keepalive = "keepalive",
        Publish = "publish",
        Subscribe = "subscribe",
        Unsubscribe = "unsubscribe",
        Start = "start",
        Stop = "stop",
        ApplicationResponse = "applicationResponse",
        UpdateNodeActionStatus = "UpdateNodeActionStatus",
        Prepull = "prepull",
        Upgrade = "upgrade",
        CreateVolume = "createvolume",
        DeleteVolume = "deletevolume",
        ControllerPublishVolume = "controllerpublishvolume",
        ControllerUnpublishVolume = "controllerunpublishvolume",
        Null = "null",
    }
}

words! {
    /// The resource type in a resource path.
    ResourceType {
        Pod = "pod",
        PodList = "podlist",
        PodPatch = "podpatch",
        PodStatus = "podstatus",
        ConfigMap = "configmap",
        Secret = "secret",
        ServiceAccountToken = "serviceaccounttoken",
        ServiceAccountAccess = "serviceaccountaccess",
        Node = "node",
        NodePatch = "nodepatch",
        NodeStatus = "nodestatus",
        Lease = "lease",
        Event = "event",
        CertificateSigningRequest = "certificatesigningrequest",
        PersistentVolume = "persistentvolume",
        PersistentVolumeClaim = "persistentvolumeclaim",
        VolumeAttachment = "volumeattachment",
        Volume = "volume",
        Device = "device",
        DeviceModel = "devicemodel",
        DeviceMapper = "devicemapper",
        RuleStatus = "rulestatus",
        Rule = "rule",
        RuleEndpoint = "ruleendpoint",
    }
}
