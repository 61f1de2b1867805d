"""A storage in memory; see `sdf.storage.places.Storage`. It can do something before each operation, such as die."""


class Memory:
    """Files in a dict.

    Args:
        files: the content of each file by name; storages that share it are one place.
        before: called before each operation, with its name and the file.
    """

    root = "memory"

    def __init__(self, files=None, before=lambda what, name: None):
        self.files = {} if files is None else files
        self.before = before
        self.writer = f"writer {id(self)}"

    def create(self, name, data):
        self.before("create", name)
        if name in self.files:
            raise FileExistsError(name)
        self.files[name] = data

    def replace(self, name, data):
        self.before("replace", name)
        self.files[name] = data

    def read(self, name):
        self.before("read", name)
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def size(self, name):
        self.before("size", name)
        return len(self.files[name]) if name in self.files else None

    def names(self, directory):
        self.before("names", directory)
        return sorted(name for name in self.files if name.startswith(f"{directory}/") and ".tmp-" not in name)

    def half_written(self, directory):
        return sorted(name for name in self.files if name.startswith(f"{directory}/") and ".tmp-" in name)

    def remove(self, name):
        self.before("remove", name)
        self.files.pop(name, None)

    def sync(self, directory):
        pass
