"""Why a plan or a schedule costs what it costs."""
