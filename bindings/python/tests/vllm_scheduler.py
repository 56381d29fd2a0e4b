# SPDX-License-Identifier: Apache-2.0
"""An engine with vLLM's own Scheduler, which has the connector made and calls it.

VllmConfig, Scheduler and the connectors are the real ones, of a model that has but a configuration:
the worker computes nothing. vllm is imported by the process of the engine, not by the test's.
"""

import json
import pickle
import sys
import types

NBLOCKS, BLOCK_SIZE, NLAYERS, NHEADS, HEAD_SIZE = 12, 16, 3, 4, 8
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": NHEADS * HEAD_SIZE,
    "intermediate_size": 64,
    "num_attention_heads": NHEADS,
    "num_key_value_heads": NHEADS,
    "num_hidden_layers": NLAYERS,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "torch_dtype": "float16",
}


def _config(folder, name):
    from vllm import config

    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(MODEL))
    made = config.VllmConfig(
        model_config=config.ModelConfig(
            model=str(model), skip_tokenizer_init=True, dtype="float16", max_model_len=256
        ),
        cache_config=config.CacheConfig(block_size=BLOCK_SIZE, enable_prefix_caching=False),
        scheduler_config=config.SchedulerConfig(
            max_num_seqs=8, max_num_batched_tokens=256, max_model_len=256, is_encoder_decoder=False
        ),
        device_config=config.DeviceConfig("cpu"),
        kv_transfer_config=config.KVTransferConfig(
            engine_id=name,
            kv_connector="NixlrunConnector",
            kv_connector_module_path="kv_connector",
            kv_connector_extra_config={"where": f"file:{folder}", "timeout": 5},
            kv_role="kv_both",
            kv_load_failure_policy="recompute",
        ),
    )
    made.cache_config.num_gpu_blocks = NBLOCKS
    return made


class Scheduled:
    """A process of kv_engine.Remote."""

    def __init__(self, folder, name, examples):
        sys.path.insert(0, examples)
        import torch
        from vllm.distributed import parallel_state
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        parallel_state._TP = types.SimpleNamespace(rank_in_group=0)
        config = _config(folder, name)
        spec = FullAttentionSpec(
            block_size=BLOCK_SIZE, num_kv_heads=NHEADS, head_size=HEAD_SIZE, dtype=torch.float16
        )
        caches = KVCacheConfig(NBLOCKS, [], [KVCacheGroupSpec(["layers.0"], spec)])
        manager = StructuredOutputManager(config)
        self.scheduler = Scheduler(config, caches, manager, block_size=BLOCK_SIZE, log_stats=True)
        worker = KVConnectorFactory.create_connector(config, KVConnectorRole.WORKER, caches)
        self.at = {"SCHEDULER": self.scheduler.connector, "WORKER": worker}
        random = torch.Generator().manual_seed(sum(name.encode()))
        shape = (NBLOCKS, NHEADS, BLOCK_SIZE, 2 * HEAD_SIZE)
        self.caches = {
            f"layers.{i}": torch.randint(-30000, 30000, shape, dtype=torch.int16, generator=random)
            for i in range(NLAYERS)
        }
        worker.register_kv_caches(self.caches)
        self.scheduler.connector.set_xfer_handshake_metadata({0: worker.get_handshake_metadata()})

    def add(self, name, ntokens, params):
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        sampling = SamplingParams(max_tokens=1, extra_args={"kv_transfer_params": params})
        self.scheduler.add_request(Request(name, list(range(ntokens)), sampling, None))

    def step(self):
        """Tokens to compute, blocks, and, of those that ended, what the other engine gets."""
        from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput

        plan = self.scheduler.schedule()
        worker = self.at["WORKER"]
        worker.bind_connector_metadata(pickle.loads(pickle.dumps(plan.kv_connector_metadata)))
        worker.start_load_kv(None)
        worker.wait_for_save()
        sent, received = worker.get_finished(plan.finished_req_ids)
        moved = KVConnectorOutput(sent, received, worker.get_kv_connector_stats())
        moved.invalid_block_ids = worker.get_block_ids_with_load_errors()
        worker.clear_connector_metadata()
        names = list(plan.num_scheduled_tokens)
        numbers = {name: i for i, name in enumerate(names)}
        output = ModelRunnerOutput(names, numbers, [[1]] * len(names), kv_connector_output=moved)
        blocks = {name: self.scheduler.kv_cache_manager.get_block_ids(name)[0] for name in names}
        clients = self.scheduler.update_from_output(plan, output).values()
        ended = {
            one.request_id: one.kv_transfer_params
            for client in clients
            for one in client.outputs
            if one.finished
        }
        return plan.num_scheduled_tokens, blocks, ended

    def idle(self):
        """Whether all blocks, but the one that vLLM keeps, are free."""
        nfree = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return nfree == NBLOCKS - 1 and not self.scheduler.requests

    def tokens(self, blocks, ntokens):
        """What the caches have of the first tokens of these blocks."""
        layers = [cache[blocks].transpose(1, 2).flatten(0, 1) for cache in self.caches.values()]
        return [layer[:ntokens].numpy() for layer in layers]
