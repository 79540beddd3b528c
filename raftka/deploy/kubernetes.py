"""Manifests of a cluster for Kubernetes 1.28 or newer: plain YAML, without an operator or a package manager.

A StatefulSet gives each broker a name and a volume. Its pods start at the same time: brokers found a cluster together,
and each of them needs the names of the others before any is ready. Node ids are the ordinals of the pods, from 1.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from raftka.config import ConfigError, load_config
from raftka.config_options import BY_KEY, check_replication_factor, unknown_key
from raftka.deploy.checked import quantity_bytes
from raftka.deploy.containerfile import DATA_DIR, USER_ID
from raftka.deploy.systemd import STOP_SECONDS

KAFKA_PORT, RPC_PORT, ADMIN_PORT = 9092, 33145, 9644
SECRET_FILE = "/etc/raftka/secret"
# Kubernetes puts a hash of 11 characters behind it, and allows 52.
NAME_CHARACTERS_MAX = 40
# A directory of its own on the volume, beside the lost+found of a file system.
BROKER_DIR = f"{DATA_DIR}/data"
# 60 MB are a broker that idles with 10 partitions, 81 MB one with 1,000 (docs/operations/capacity.md). The rest is for
# batches on their way; under full load 162 MB were measured. With less, the kernel would kill brokers that do little.
MEMORY_MIN = "128Mi"


class Affinity(StrEnum):
    """Whether two brokers may share a machine."""

    REQUIRED = "required"
    PREFERRED = "preferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """What the manifests are for; names, images and sizes as `raftka.deploy.checked` returns them.

    Attributes:
        image: With `raftka` at its entry point.
        replicas: Number of brokers, at least 1.
        name: Of the StatefulSet and its services; at most NAME_CHARACTERS_MAX characters.
        cluster_domain: The domain of Kubernetes' own DNS.
        storage_class: None: the default of the Kubernetes cluster.
        metrics_namespace: Its pods reach the admin port, besides those of the brokers' namespace; None: no others.
        options: Options for every broker, beside those that the manifests set.
    """

    image: str
    replicas: int
    name: str
    namespace: str
    cluster_domain: str
    storage: str
    storage_class: str | None
    memory: str
    cpu: str
    anti_affinity: Affinity
    metrics_namespace: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def host(self, pod: str) -> str:
        """Return the name of a pod in the DNS of Kubernetes."""
        return f"{pod}.{self.name}.{self.namespace}.svc.{self.cluster_domain}"


def render_cluster(request: ClusterRequest, version: str) -> str:
    """Return the manifests, as YAML documents.

    Raises:
        ConfigError: An option does not exist, has a bad value, or is one that the manifests set.
    """
    variables = broker_variables(request)
    storage_class = "" if request.storage_class is None else f"        storageClassName: {request.storage_class}\n"
    return _MANIFESTS.format(
        version=version,
        name=request.name,
        namespace=request.namespace,
        image=request.image,
        replicas=request.replicas,
        memory=request.memory,
        # A string, as every quantity: YAML would take 1 for a number.
        cpu=json.dumps(request.cpu),
        storage=request.storage,
        storage_class=storage_class,
        anti_affinity=_anti_affinity(request),
        metrics=_metrics_rule(request.metrics_namespace),
        variables="".join(_variable(name, value) for name, value in variables.items()),
        user_id=USER_ID,
        data_dir=DATA_DIR,
        broker_dir=BROKER_DIR,
        stop=STOP_SECONDS,
        kafka_port=KAFKA_PORT,
        rpc_port=RPC_PORT,
        admin_port=ADMIN_PORT,
    )


def broker_variables(request: ClusterRequest) -> dict[str, str]:
    """Return the variables of every broker; $(POD_NAME) and $(POD_IP) are Kubernetes' to fill in.

    Raises:
        ConfigError: As `render_cluster`.
    """
    nodes = range(1, request.replicas + 1)
    own = {
        "data.dir": BROKER_DIR,
        "kafka.address": "$(POD_IP)",
        "kafka.advertised.address": request.host("$(POD_NAME)"),
        "kafka.port": str(KAFKA_PORT),
        "rpc.address": "$(POD_IP)",
        "rpc.port": str(RPC_PORT),
        "admin.address": "$(POD_IP)",
        "admin.port": str(ADMIN_PORT),
        "insecure": "true",
        "seeds": ",".join(f"{each}@{request.host(f'{request.name}-{each}')}:{RPC_PORT}" for each in nodes),
        "cluster.secret.file": SECRET_FILE,
    }
    for key in request.options:
        if key not in BY_KEY:
            raise ConfigError(unknown_key(key, "-c"))
        if key in own or key in ("node.id", "data.dir.create"):
            raise ConfigError(f"-c {key}: the manifests set this option themselves")
    # $$ is how Kubernetes writes a $ that begins no reference.
    options = {key: value.replace("$", "$$") for key, value in request.options.items()}
    _check(own | dict(request.options), request)
    return {BY_KEY[key].variable: value for key, value in (own | options).items()}


def _check(options: Mapping[str, str], request: ClusterRequest) -> None:
    """Let the configuration of the first broker be checked as the broker checks it, and whether its pod can hold it."""
    references = {"$(POD_IP)": "127.0.0.1", "$(POD_NAME)": f"{request.name}-1"}
    filled = dict(options)
    for key, value in options.items():
        if key not in request.options:
            for reference, meaning in references.items():
                value = value.replace(reference, meaning)
            filled[key] = value
    try:
        config = load_config({"node.id": 1, **filled})
        check_replication_factor(config.default_replication_factor, len(config.seeds))
    except ConfigError as error:
        # Only what `-c` gives can be wrong, and that is what the user has written.
        source, _, words = str(error).partition(": ")
        raise ConfigError(f"-c {words}" if source == "command line" else str(error)) from None
    if quantity_bytes(request.memory) < quantity_bytes(MEMORY_MIN):
        raise ConfigError(f"--memory {request.memory}: a broker needs at least {MEMORY_MIN}")
    # A disk that is never free enough takes no record; a segment is written beside one that is deleted.
    needed = config.disk_reserve_bytes + config.log_segment_bytes
    if quantity_bytes(request.storage) < needed:
        raise ConfigError(
            f"--storage {request.storage}: at least {needed} bytes are needed, of disk.reserve.bytes"
            f" ({config.disk_reserve_bytes}) and log.segment.bytes ({config.log_segment_bytes})"
        )


def _metrics_rule(namespace: str | None) -> str:
    return "" if namespace is None else _METRICS_RULE.format(namespace=namespace, admin_port=ADMIN_PORT)


def _variable(name: str, value: str) -> str:
    # A string of JSON is one of YAML.
    return f"            - name: {name}\n              value: {json.dumps(value, ensure_ascii=False)}\n"


def _anti_affinity(request: ClusterRequest) -> str:
    term = _TERM.format(name=request.name)
    if request.anti_affinity is Affinity.REQUIRED:
        lines = ["requiredDuringSchedulingIgnoredDuringExecution:", *_item(term)]
    else:
        weighted = "weight: 100\npodAffinityTerm:\n" + "\n".join(f"  {line}" for line in term.splitlines())
        lines = ["preferredDuringSchedulingIgnoredDuringExecution:", *_item(weighted)]
    return "\n".join(f"          {line}" for line in lines)


def _item(text: str) -> list[str]:
    """Return the lines of an item of a YAML list."""
    first, *others = text.splitlines()
    return [f"  - {first}", *(f"    {line}" for line in others)]


_TERM = """\
topologyKey: kubernetes.io/hostname
labelSelector:
  matchLabels:
    app.kubernetes.io/name: raftka
    app.kubernetes.io/instance: {name}"""

# Kubernetes gives each namespace this label.
_METRICS_RULE = """\
    - from:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: {namespace}
      ports:
        - port: {admin_port}
"""

_MANIFESTS = """\
# A Raftka cluster, written by `raftka generate kubernetes` of version {version}; for Kubernetes 1.28 or newer.
# docs/operations/install.md says how to install it. First make the namespace and the secret by which the brokers know
# each other:
#   kubectl create namespace {namespace}
#   head -c 32 /dev/urandom | base64 > secret
#   kubectl -n {namespace} create secret generic {name}-secret --from-file=secret
# The number of brokers is for ever: do not scale the StatefulSet. Do not delete a volume: a broker that comes with
# another one is refused by the others.
---
# The names of the brokers. Brokers that are not ready have names, too: they could not found the cluster otherwise.
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {namespace}
  labels: &labels
    app.kubernetes.io/name: raftka
    app.kubernetes.io/instance: {name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: *labels
  ports:
    - name: kafka
      port: {kafka_port}
    - name: rpc
      port: {rpc_port}
    - name: admin
      port: {admin_port}
---
# The first address of clients, of any broker that is ready: {name}-bootstrap:{kafka_port}.
apiVersion: v1
kind: Service
metadata:
  name: {name}-bootstrap
  namespace: {namespace}
  labels: &labels
    app.kubernetes.io/name: raftka
    app.kubernetes.io/instance: {name}
spec:
  selector: *labels
  ports:
    - name: kafka
      port: {kafka_port}
---
# Drains of machines take one broker at a time.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}
  namespace: {namespace}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: raftka
      app.kubernetes.io/instance: {name}
---
# There is no TLS and no login yet: only brokers reach the rpc port, and only pods of this namespace the others.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {name}
  namespace: {namespace}
spec:
  podSelector:
    matchLabels: &labels
      app.kubernetes.io/name: raftka
      app.kubernetes.io/instance: {name}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels: *labels
      ports:
        - port: {rpc_port}
    - from:
        - podSelector: {{}}
      ports:
        - port: {kafka_port}
        - port: {admin_port}
{metrics}---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}
  namespace: {namespace}
  labels: &labels
    app.kubernetes.io/name: raftka
    app.kubernetes.io/instance: {name}
spec:
  serviceName: {name}
  replicas: {replicas}
  # Node ids are 1, 2, ...
  ordinals:
    start: 1
  # One after the other, no broker would become ready: founding needs all of them, and raft0 a majority.
  podManagementPolicy: Parallel
  # An update goes on to the next broker when this one is ready.
  updateStrategy:
    type: RollingUpdate
  minReadySeconds: 5
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: Retain
    whenScaled: Retain
  selector:
    matchLabels: *labels
  template:
    metadata:
      labels: *labels
    spec:
      # A clean stop transfers leaderships, and takes at most 60 s.
      terminationGracePeriodSeconds: {stop}
      # Kubernetes would set variables such as RAFTKA_SERVICE_HOST, which are no options of a broker.
      enableServiceLinks: false
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: {user_id}
        runAsGroup: {user_id}
        fsGroup: {user_id}
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile:
          type: RuntimeDefault
      affinity:
        podAntiAffinity:
{anti_affinity}
      initContainers:
        # The broker does not create its data directory; a pod starts only after its volume is mounted.
        - name: data-directory
          image: {image}
          command: [mkdir, -p, -m, "0700", {broker_dir}]
          securityContext: &restricted
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: data
              mountPath: {data_dir}
      containers:
        - name: broker
          image: {image}
          args: [start, --no-data-dir-create]
          securityContext: *restricted
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
            - name: RAFTKA_NODE_ID
              valueFrom:
                fieldRef:
                  fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
{variables}          ports:
            - name: kafka
              containerPort: {kafka_port}
            - name: rpc
              containerPort: {rpc_port}
            - name: admin
              containerPort: {admin_port}
          # Whether the event loop runs, and no more: a broker that waits for others must not be restarted for it. The
          # broker ends by itself after 60 s without its loop, with the stacks of its threads.
          startupProbe:
            httpGet:
              path: /v1/status/live
              port: admin
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 60
          livenessProbe:
            httpGet:
              path: /v1/status/live
              port: admin
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 12
          readinessProbe:
            httpGet:
              path: /v1/status/ready
              port: admin
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 2
          resources:
            requests:
              cpu: {cpu}
              memory: {memory}
            limits:
              memory: {memory}
          volumeMounts:
            - name: data
              mountPath: {data_dir}
            - name: secret
              mountPath: /etc/raftka
              readOnly: true
      volumes:
        - name: secret
          secret:
            secretName: {name}-secret
            # The group of the pod gets it, and nobody else.
            defaultMode: 0440
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
{storage_class}        resources:
          requests:
            storage: {storage}
"""
