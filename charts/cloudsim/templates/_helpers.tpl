{{/* What all objects of the release are called. */}}
{{- define "cloudsim.name" -}}
{{- if contains "cloudsim" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-cloudsim" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The keys of the cloud are where CloudCore has them, so that each can replace the other. */}}
{{- define "cloudsim.namespace" -}}
kubeedge
{{- end -}}

{{/* Checked once, by the Deployment: `helm lint` prints a line for each check that fails. */}}
{{- define "cloudsim.checkNamespace" -}}
{{- if ne .Release.Namespace (include "cloudsim.namespace" .) -}}
{{- fail "KubeEdge's keys are in the namespace kubeedge: install with --namespace kubeedge --create-namespace" -}}
{{- end -}}
{{- end -}}

{{/* What a Service or a workload finds its pods by; .component says which. */}}
{{- define "cloudsim.selector" -}}
app.kubernetes.io/name: cloudsim
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "cloudsim.labels" -}}
{{ include "cloudsim.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kubeedge
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "cloudsim.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* Where pods find the cloud. */}}
{{- define "cloudsim.service" -}}
{{- printf "%s.%s.svc" (include "cloudsim.name" .) (include "cloudsim.namespace" .) -}}
{{- end -}}

{{/* What the level restricted of Pod Security asks of a pod. */}}
{{- define "cloudsim.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "cloudsim.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where pods of this chart run: not on edge nodes, which the cloud has yet to serve. */}}
{{- define "cloudsim.affinity" -}}
{{- if .Values.affinity -}}
{{ toYaml .Values.affinity }}
{{- else -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: node-role.kubernetes.io/edge, operator: DoesNotExist}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 1
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {{- include "cloudsim.selector" (dict "root" . "component" "cloud") | nindent 10 }}
{{- end -}}
{{- end -}}

{{/* Where the API server is, where the cluster's own way leads nowhere. */}}
{{- define "cloudsim.apiServer" -}}
{{- if .Values.apiServer.host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ .Values.apiServer.host | quote }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ .Values.apiServer.port | quote }}}
{{- end }}
{{- end -}}
