# SPDX-License-Identifier: Apache-2.0
"""What examples/python/kv_connector.py imports from vLLM, for machines without it.

The names, signatures, defaults and contracts are those of vLLM 0.33.0: KVConnectorBase_V1 and what
is beside it (vllm/distributed/kv_transfer/kv_connector/v1/base.py), KVConnectorStats
(.../v1/metrics.py), get_tensor_model_parallel_rank (vllm/distributed/parallel_state.py), Request and
RequestStatus (vllm/v1/request.py), KVCacheBlocks (vllm/v1/core/kv_cache_manager.py), the factory,
which is connector(), and the parts of VllmConfig and KVCacheConfig that a connector reads. Caches
are arrays of numpy.
"""

import abc
import enum
import importlib
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Optional

TP_RANK = 0  # of this process


def get_tensor_model_parallel_rank():
    return TP_RANK


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorMetadata(abc.ABC):  # noqa: B024
    pass


class KVConnectorHandshakeMetadata(abc.ABC):  # noqa: B024
    pass


@dataclass
class KVConnectorTransferResults:
    finished_sending: set[str] = field(default_factory=set)
    finished_recving: set[str] = field(default_factory=set)
    failed_recving: set[str] = field(default_factory=set)


class KVConnectorBase_V1(abc.ABC):
    def __init__(self, vllm_config, role, kv_cache_config):
        if vllm_config.kv_transfer_config is None:
            raise ValueError("kv_transfer_config must be set for KVConnectorBase_V1")
        self._connector_metadata = None
        self._vllm_config = vllm_config
        self._kv_transfer_config = vllm_config.kv_transfer_config
        self._kv_cache_config = kv_cache_config
        self._role = role

    @property
    def role(self):
        return self._role

    def bind_connector_metadata(self, connector_metadata):
        self._connector_metadata = connector_metadata

    def clear_connector_metadata(self):
        self._connector_metadata = None

    def _get_connector_metadata(self):
        assert self._connector_metadata is not None
        return self._connector_metadata

    def register_kv_caches(self, kv_caches):
        return

    @abc.abstractmethod
    def start_load_kv(self, forward_context, **kwargs): ...

    @abc.abstractmethod
    def wait_for_layer_load(self, layer_name): ...

    @abc.abstractmethod
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs): ...

    @abc.abstractmethod
    def wait_for_save(self): ...

    def get_finished(self, finished_req_ids):
        return None, None

    def get_transfer_results(self, finished_req_ids):
        sent, received = self.get_finished(finished_req_ids)
        return KVConnectorTransferResults(set(sent or ()), set(received or ()))

    def get_block_ids_with_load_errors(self):
        return set()

    def shutdown(self):
        return None

    def get_kv_connector_stats(self):
        return None

    def get_handshake_metadata(self):
        return None

    @abc.abstractmethod
    def get_num_new_matched_tokens(self, request, num_computed_tokens): ...

    @abc.abstractmethod
    def update_state_after_alloc(self, request, blocks, num_external_tokens): ...

    @abc.abstractmethod
    def build_connector_meta(self, scheduler_output): ...

    def update_connector_output(self, connector_output):
        return

    def request_finished(self, request, block_ids):
        return False, None

    @classmethod
    def build_kv_connector_stats(cls, data=None):
        return None

    def set_xfer_handshake_metadata(self, metadata):
        return None


@dataclass
class KVConnectorStats:
    data: dict[str, Any] = field(default_factory=dict)

    def reset(self):
        raise NotImplementedError

    def aggregate(self, other):
        raise NotImplementedError

    def reduce(self):
        raise NotImplementedError

    def is_empty(self):
        raise NotImplementedError


class RequestStatus(enum.IntEnum):
    WAITING = enum.auto()
    WAITING_FOR_REMOTE_KVS = enum.auto()
    RUNNING = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()


@dataclass
class Request:
    request_id: str
    num_prompt_tokens: int
    kv_transfer_params: Optional[dict[str, Any]] = None
    num_computed_tokens: int = 0
    status: RequestStatus = RequestStatus.WAITING


@dataclass
class KVCacheBlocks:
    groups: tuple[list[int], ...]

    def get_block_ids(self):
        return self.groups


@dataclass
class KVTransferConfig:
    engine_id: str
    kv_connector_extra_config: dict[str, Any]
    kv_connector: str = "NixlrunConnector"
    kv_connector_module_path: str = "kv_connector"
    kv_role: str = "kv_both"


@dataclass
class ModelConfig:
    model: str
    nheads: int

    def get_total_num_kv_heads(self):
        return self.nheads


@dataclass
class ParallelConfig:
    tensor_parallel_size: int
    pipeline_parallel_size: int = 1


@dataclass
class CacheConfig:
    block_size: int


@dataclass
class VllmConfig:
    kv_transfer_config: Optional[KVTransferConfig]
    model_config: ModelConfig
    parallel_config: ParallelConfig
    cache_config: CacheConfig


@dataclass
class KVCacheConfig:
    num_blocks: int
    kv_cache_groups: list[Any] = field(default_factory=lambda: [None])


def install(tp_rank):
    """Put the modules where they are imported from, as the worker of a tensor-parallel rank."""
    global TP_RANK
    TP_RANK = tp_rank
    v1 = "vllm.distributed.kv_transfer.kv_connector.v1"
    base = KVConnectorBase_V1, KVConnectorMetadata, KVConnectorHandshakeMetadata, KVConnectorRole
    for path, names in {
        f"{v1}.base": base,
        f"{v1}.metrics": (KVConnectorStats,),
        "vllm.distributed.parallel_state": (get_tensor_model_parallel_rank,),
        "vllm.v1.request": (Request, RequestStatus),
    }.items():
        parts = path.split(".")
        for i in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
        for name in names:
            setattr(sys.modules[path], name.__name__, name)


def connector(config, role, caches):
    """As vLLM's factory makes it, by its module path."""
    module = importlib.import_module(config.kv_transfer_config.kv_connector_module_path)
    kind = getattr(module, config.kv_transfer_config.kv_connector)
    return kind(config, KVConnectorRole[role], caches)


def tensor(cache):
    return cache


def real(given):
    return given
