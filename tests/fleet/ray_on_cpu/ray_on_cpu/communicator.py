from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class OverHosts(CpuCommunicator):
    def _all_group_ranks_share_shm_group_name(self) -> bool:
        """Over Ray all ranks have one name for their shared memory, by which those on different hosts would look for it in vain."""
        return False
