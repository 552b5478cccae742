{{- define "wakegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "wakegate.fullname" -}}
{{- $name := include "wakegate.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "wakegate.selector" -}}
app.kubernetes.io/name: {{ include "wakegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "wakegate.labels" -}}
{{ include "wakegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "wakegate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "wakegate.fullname" .) "default") -}}
{{- end -}}

{{/* Two releases of one name in two namespaces may have targets in the same third one. */}}
{{- define "wakegate.roleName" -}}
{{- printf "%s.%s" (include "wakegate.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "wakegate.claimName" -}}
{{- .Values.persistence.existingClaim | default (printf "%s-state" (include "wakegate.fullname" .)) -}}
{{- end -}}

{{/* A duration of the configuration (250ms, 10s, 5m, 24h, 30d) in whole seconds, rounded up. */}}
{{- define "wakegate.seconds" -}}
{{- $text := toString . -}}
{{- if not (regexMatch "^[0-9]+(ms|s|m|h|d)$" $text) -}}
{{- fail (printf "config: %q is no duration, such as 250ms, 10s, 5m, 24h, 30d" $text) -}}
{{- end -}}
{{- $n := regexFind "^[0-9]+" $text | int64 -}}
{{- if hasSuffix "ms" $text -}}
{{- div (add $n 999) 1000 -}}
{{- else -}}
{{- mul $n (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) (regexFind "[smhd]$" $text)) -}}
{{- end -}}
{{- end -}}

{{/* A size of the configuration (bytes, or with Ki, Mi, Gi) in whole MiB, rounded up. */}}
{{- define "wakegate.mebibytes" -}}
{{- $text := kindIs "string" . | ternary . (int64 . | toString) -}}
{{- if not (regexMatch "^[0-9]+(Ki|Mi|Gi)?$" $text) -}}
{{- fail (printf "config: %q is no size, such as 1048576, 64Ki, 32Mi, 1Gi" $text) -}}
{{- end -}}
{{- $n := regexFind "^[0-9]+" $text | int64 -}}
{{- $unit := get (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "" 1) (regexFind "[KMG]i$" $text) -}}
{{- div (add (mul $n $unit) 1048575) 1048576 -}}
{{- end -}}

{{/* The port of an address that has to be reached from outside of the pod; `key` says whose it is. */}}
{{- define "wakegate.port" -}}
{{- $address := toString (.address | default "") -}}
{{- if not (regexMatch ":[1-9][0-9]*$" $address) -}}
{{- fail (printf "%s: %q has no fixed port" .key $address) -}}
{{- end -}}
{{- if or (hasPrefix "127." $address) (hasPrefix "[::1]" $address) -}}
{{- fail (printf "%s: %s is a loopback address, which nobody outside of the pod can reach; use 0.0.0.0 or [::]" .key $address) -}}
{{- end -}}
{{- regexFind "[0-9]+$" $address -}}
{{- end -}}

{{- define "wakegate.adminPort" -}}
{{- include "wakegate.port" (dict "address" (dig "admin" "address" "127.0.0.1:9090" .Values.config) "key" "config.admin.address") -}}
{{- end -}}

{{/* JSON: {"ports": [{name, port, tls}]}, one of each listener. */}}
{{- define "wakegate.ports" -}}
{{- $ports := list -}}
{{- range $i, $listener := .Values.config.listeners -}}
{{- $tls := hasKey $listener "tls" -}}
{{- $name := $tls | ternary "https" "http" -}}
{{- range $ports }}{{ if eq .name $name }}{{ $name = printf "%s-%d" $name $i }}{{ end }}{{ end -}}
{{- $port := include "wakegate.port" (dict "address" (get $listener "address") "key" (printf "config.listeners[%d].address" $i)) | int -}}
{{- $ports = append $ports (dict "name" $name "port" $port "tls" $tls) -}}
{{- end -}}
{{- if not $ports -}}
{{- fail "config.listeners: there must be one, on an address that is not a loopback one" -}}
{{- end -}}
{{- dict "ports" $ports | toJson -}}
{{- end -}}

{{/* How long the kubelet waits: the delay, the grace, the slowest model process, and 10 s for the last bytes. */}}
{{- define "wakegate.terminationGrace" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- $stop := 0 -}}
{{- range .Values.config.models -}}
{{- $process := dig "target" "process" nil . -}}
{{- if $process -}}
{{- $stop = max $stop (include "wakegate.seconds" (dig "stopTimeout" "10s" $process) | int64) -}}
{{- end -}}
{{- end -}}
{{- $delay := include "wakegate.seconds" (dig "shutdown" "delay" "0s" .Values.config) | int64 -}}
{{- $grace := include "wakegate.seconds" (dig "shutdown" "grace" "300s" .Values.config) | int64 -}}
{{- add $delay $grace $stop 10 -}}
{{- else -}}
{{- .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* What is held, a quarter more for the allocator, 24 KiB a connection, and 128 MiB for all else. */}}
{{- define "wakegate.memory" -}}
{{- $held := include "wakegate.mebibytes" (dig "limits" "maxHeldBytes" "1Gi" .Values.config) | int64 -}}
{{- $connections := dig "limits" "maxConnections" 20000 .Values.config | int64 -}}
{{- printf "%dMi" (add $held (div (add $held 3) 4) (div (mul $connections 24) 1024) 128) -}}
{{- end -}}

{{/* The plural of a kind, by which rules name it: as given, else as English makes it. */}}
{{- define "wakegate.plural" -}}
{{- $low := lower .kind -}}
{{- if hasKey .plurals .kind -}}
{{- get .plurals .kind -}}
{{- else if hasSuffix "s" $low -}}
{{- printf "%ses" $low -}}
{{- else if hasSuffix "y" $low -}}
{{- printf "%sies" (trimSuffix "y" $low) -}}
{{- else -}}
{{- printf "%ss" $low -}}
{{- end -}}
{{- end -}}

{{- define "wakegate.group" -}}
{{- contains "/" . | ternary (splitList "/" . | first) "" -}}
{{- end -}}

{{/* JSON: {namespace: {"group/plural": {group, resource, names}}}; where `names` is empty, all of them. */}}
{{- define "wakegate.targets" -}}
{{- $plurals := .Values.rbac.plurals -}}
{{- $found := dict -}}
{{- range .Values.targetNamespaces -}}
{{- $kinds := dict -}}
{{- range $.Values.rbac.kinds -}}
{{- $group := include "wakegate.group" .apiVersion -}}
{{- $resource := include "wakegate.plural" (dict "kind" .kind "plurals" $plurals) -}}
{{- $_ := set $kinds (printf "%s/%s" $group $resource) (dict "group" $group "resource" $resource "names" list) -}}
{{- end -}}
{{- $_ := set $found . $kinds -}}
{{- end -}}
{{- range $i, $model := .Values.config.models -}}
{{- $target := dig "target" "kubernetes" nil $model -}}
{{- if $target -}}
{{- $key := printf "config.models[%d].target.kubernetes" $i -}}
{{- $namespace := required (printf "%s.namespace is missing" $key) (get $target "namespace") -}}
{{- $name := required (printf "%s.name is missing" $key) (get $target "name") -}}
{{- $group := include "wakegate.group" (get $target "apiVersion" | default "apps/v1") -}}
{{- $resource := include "wakegate.plural" (dict "kind" (get $target "kind" | default "Deployment") "plurals" $plurals) -}}
{{- $id := printf "%s/%s" $group $resource -}}
{{- if not (hasKey $found $namespace) }}{{ $_ := set $found $namespace dict }}{{ end -}}
{{- $kinds := get $found $namespace -}}
{{- $any := has $namespace $.Values.targetNamespaces -}}
{{- if not (hasKey $kinds $id) }}{{ $_ := set $kinds $id (dict "group" $group "resource" $resource "names" list) }}{{ end -}}
{{- if not $any -}}
{{- $kind := get $kinds $id -}}
{{- $_ := set $kind "names" (append $kind.names $name | uniq | sortAlpha) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* JSON: {"lines": [...]}: what deserves a word after an installation. */}}
{{- define "wakegate.warnings" -}}
{{- $lines := list -}}
{{- $grace := include "wakegate.terminationGrace" . | int64 -}}
{{- if not .Values.config.models -}}
{{- $lines = append $lines "config.models is empty: every request is refused." -}}
{{- end -}}
{{- if not .Values.config.tenants -}}
{{- $lines = append $lines "config.tenants is empty: whoever reaches the Service may use every model, without a key." -}}
{{- end -}}
{{- if not (dig "admin" "keys" list .Values.config) -}}
{{- $lines = append $lines "config.admin.keys is empty: orders to wake or sleep a model are refused." -}}
{{- end -}}
{{- range .Values.config.models -}}
{{- $idle := dig "idle" "timeout" "30m" . -}}
{{- if and (dig "target" "kubernetes" nil .) (ne (toString $idle) "never") -}}
{{- if lt (include "wakegate.seconds" $idle | int64) $grace -}}
{{- $lines = append $lines (printf "%s: idle.timeout %s is shorter than the %d s in which an old pod may still finish requests: a new one could scale the model down under them." .name $idle $grace) -}}
{{- end -}}
{{- end -}}
{{- if dig "target" "process" nil . -}}
{{- $lines = append $lines (printf "%s: a process target runs inside Wakegate's own container: image and resources must fit it." .name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.persistence.enabled -}}
{{- $lines = append $lines "persistence.enabled: this version keeps nothing on the volume, and the pod is recreated where it would be rolled." -}}
{{- end -}}
{{- dict "lines" $lines | toJson -}}
{{- end -}}
