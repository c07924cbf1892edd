//! The document of enrolment.

use serde_json::{Value, json};
use wire::{
    enroll::{
        CA_PATH, EDGE_CERT_PATH, EXT_KEY_USAGES_HEADER, NODE_IS_CONNECTED, NODE_NAME_HEADER,
        NODE_NAME_IS_FREE, NODE_NAME_IS_TAKEN, NODE_PATH,
    },
    version,
};

fn text(what: &str) -> Value {
    json!({"description": what, "content": {"text/plain": {"schema": {"type": "string"}}}})
}

fn certificate(what: &str) -> Value {
    json!({"description": what, "content": {"application/octet-stream": {"schema": {"type": "string", "contentEncoding": "binary"}}}})
}

fn header(name: &str, is_required: bool, what: &str) -> Value {
    json!({"name": name, "in": "header", "required": is_required, "description": what, "schema": {"type": "string"}})
}

fn edge_certificate() -> Value {
    json!({
        "operationId": "issueCertificate",
        "summary": "Issues the node's certificate, or renews it",
        "description": "A GET with a body: the PKCS#10 request in DER, 1 MiB at most. The request is authenticated by a join token, or by the node's certificate on the TLS connection. With a certificate, the token is ignored.",
        "parameters": [
            header(NODE_NAME_HEADER, true, "The node's name."),
            header(EXT_KEY_USAGES_HEADER, false, "JSON list of the numbers of Go's x509.ExtKeyUsage. The default is [2], client authentication."),
        ],
        "requestBody": {
            "required": true,
            "description": "The request's subject is O=system:nodes, CN=system:node:NAME.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "contentEncoding": "binary"}}},
        },
        "security": [{"token": []}, {"certificate": []}],
        "responses": {
            "200": certificate("The certificate in DER."),
            "400": text("cloudsim: the request or the name is invalid."),
            "401": text("The token or the certificate is invalid."),
            "409": text("cloudsim: another node has the name."),
        },
    })
}

fn node() -> Value {
    json!({
        "operationId": "getNode",
        "summary": "Reports whether a Node of this name exists",
        "description": "CloudCore answers anybody. cloudsim answers only with a join token.",
        "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}],
        "security": [{}, {"token": []}],
        "responses": {
            "200": text(&format!(
                "The Node exists. The body is empty; cloudsim's is `{NODE_IS_CONNECTED}`, `{NODE_NAME_IS_TAKEN}` or `{NODE_NAME_IS_FREE}`."
            )),
            "401": text("cloudsim: the token is invalid."),
            "404": text("There is no such Node."),
        },
    })
}

/// Returns the document.
pub(super) fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "KubeEdge: enrolment of an edge node",
            "version": version::KUBEEDGE.trim_start_matches('v'),
            "description": "A join token is `<SHA-256 of the CA certificate, hexadecimal>.<JWT>`. A node fetches the CA without verification, compares its hash with that of the token, and sends only the JWT as bearer token.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "https://{cloud}:10002", "variables": {"cloud": {"default": "127.0.0.1", "description": "The address of the cloud."}}}],
        "paths": {
            CA_PATH: {"get": {
                "operationId": "getCa",
                "summary": "Returns the certificate of the CA",
                "security": [],
                "responses": {"200": certificate("The certificate in DER.")},
            }},
            EDGE_CERT_PATH: {"get": edge_certificate()},
            format!("{NODE_PATH}{{name}}"): {"get": node()},
        },
        "components": {"securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "HS256, with the CA's key in SEC1 DER as secret."},
            "certificate": {"type": "mutualTLS", "description": "The node's certificate."},
        }},
    })
}
