module kvasir.dev/hack/local-cluster/pause

go 1.24.0
