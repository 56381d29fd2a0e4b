# SPDX-License-Identifier: Apache-2.0
"""vLLM itself, for the engines of the tests of the KV connector, where it is installed.

Its KVConnectorBase_V1, factory, KVTransferConfig, Request, RequestStatus, KVCacheBlocks,
KVCacheConfig and KVConnectorStats are the real ones, and caches are tensors of torch. Of VllmConfig
there are the parts that a connector reads, since the whole wants a model; the tensor-parallel group
is but its rank. real() turns the objects of vllm_standin.py, which the test sends, into these.
"""

import types

import torch
from vllm.config import CacheConfig, KVTransferConfig
from vllm.distributed import parallel_state
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.kv_cache_utils import KVCacheBlock
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus

import vllm_standin as standin


def install(tp_rank):
    """Be the worker of a tensor-parallel rank."""
    parallel_state._TP = types.SimpleNamespace(rank_in_group=tp_rank)


def connector(config, role, caches):
    """As vLLM makes it, by its module path."""
    return KVConnectorFactory.create_connector(real(config), KVConnectorRole[role], real(caches))


def tensor(cache):
    return torch.from_numpy(cache.view("i2"))


def _config(given):
    transfer = given.kv_transfer_config
    return types.SimpleNamespace(
        kv_transfer_config=KVTransferConfig(
            engine_id=transfer.engine_id,
            kv_connector=transfer.kv_connector,
            kv_connector_module_path=transfer.kv_connector_module_path,
            kv_connector_extra_config=transfer.kv_connector_extra_config,
            kv_role=transfer.kv_role,
        ),
        cache_config=CacheConfig(block_size=given.cache_config.block_size),
        model_config=given.model_config,
        parallel_config=given.parallel_config,
        scheduler_config=types.SimpleNamespace(disable_hybrid_kv_cache_manager=True),
    )


def _request(given):
    sampling = SamplingParams(
        max_tokens=1, extra_args={"kv_transfer_params": given.kv_transfer_params}
    )
    request = Request(given.request_id, [0] * given.num_prompt_tokens, sampling, None)
    request.num_computed_tokens = given.num_computed_tokens
    request.status = RequestStatus[given.status.name]
    return request


def real(given):
    if isinstance(given, standin.VllmConfig):
        return _config(given)
    if isinstance(given, standin.Request):
        return _request(given)
    if isinstance(given, standin.KVCacheBlocks):
        return KVCacheBlocks(tuple([KVCacheBlock(i) for i in group] for group in given.groups))
    if isinstance(given, standin.KVCacheConfig):
        spec = FullAttentionSpec(block_size=16, num_kv_heads=4, head_size=8, dtype=torch.float16)
        return KVCacheConfig(given.num_blocks, [], [KVCacheGroupSpec(["layers.0"], spec)])
    return given
