//! The KubeEdge protocol, pure: messages, codecs, enrolment; CRI v1 behind a feature
